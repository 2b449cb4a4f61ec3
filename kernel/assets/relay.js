/* Relay for JupyterLab: colours in cells, in markdown and in .rly files; the type of what the mouse rests on.
 *
 * A prebuilt extension, loaded as it stands. JupyterLab hands over its shared packages with `init` and takes
 * the plugins with `get`. */
(function () {
  'use strict';

  const NAME = 'relay-lang';
  const MIME = 'text/x-relay';
  let packages = null;

  /* The exports of a package that JupyterLab shares, in the newest version it has. */
  async function shared(name) {
    const versions = packages && packages[name];
    if (!versions) {
      throw new Error(NAME + ': JupyterLab does not share ' + name);
    }
    const number = (version) => version.split(/[.-]/).map((part) => parseInt(part, 10) || 0);
    const newest = Object.keys(versions).reduce((best, version) => {
      const a = number(best), b = number(version);
      const i = [0, 1, 2].find((k) => a[k] !== b[k]);
      return i !== undefined && b[i] > a[i] ? version : best;
    });
    return (await versions[newest].get())();
  }

  /* Words end where no letter, digit, slash or dot follows: `let` is a keyword, `let/x` and `nn.let` are names. */
  const words = (list) => new RegExp('^(?:' + list.join('|') + ')(?![A-Za-z_0-9./])');

  /* In the order in which they are tried; null has no colour. */
  const rules = [
    [/^\/\/.*/, 'comment'],
    [/^#\[[^\]]*\]?/, 'meta'],
    [/^"[^"]*"?/, 'string'],
    [/^%(?:[A-Za-z_][A-Za-z_0-9/]*|[0-9]+)/, 'variableName.special'],
    [/^@[A-Za-z_][A-Za-z_0-9/]*/, 'variableName.definition'],
    [/^-*(?:(?:inf|nan)f(?:16|32|64)?(?![A-Za-z_0-9/])|[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?(?:[fi](?:16|32|64)?)?)/, 'number'],
    [words(['fn', 'let', 'if', 'else', 'match\\??', 'type', 'def', 'extern', 'ref', 'ref_read', 'ref_write',
      'free_var']), 'keyword'],
    [words(['Tensor', 'u?int[0-9]+', 'b?float[0-9]+', 'bool']), 'variableName.standard'],
    [words(['True', 'False', 'None', 'nullptr', '_', 'meta(?=\\[)']), 'atom'],
    [/^[A-Za-z_][A-Za-z_0-9/]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*/, 'variableName.function'],
    [/^(?:->|=>|[<>=!]=|[-+*/<>=])/, 'operator'],
    [/^[,:;.]/, 'punctuation'],
    [/^[()[\]{}]/, 'bracket'],
  ];

  /* A stream parser of CodeMirror. Comments between slash and star nest; a line that begins with a colon is a
   * command. */
  const parser = {
    name: 'relay',
    startState: () => ({ depth: 0 }),
    copyState: (state) => ({ depth: state.depth }),
    token(stream, state) {
      if (state.depth > 0 || stream.match('/*')) {
        state.depth = state.depth || 1;
        while (state.depth > 0 && !stream.eol()) {
          if (stream.match('*/')) {
            state.depth--;
          } else if (stream.match('/*')) {
            state.depth++;
          } else {
            stream.next();
          }
        }
        return 'comment';
      }
      if (stream.sol() && stream.match(/^:[a-z]+/)) {
        return 'meta';
      }
      if (stream.eatSpace()) {
        return null;
      }
      for (const [pattern, tag] of rules) {
        if (stream.match(pattern)) {
          return tag;
        }
      }
      stream.next();
      return null;
    },
    languageData: {
      commentTokens: { line: '//', block: { open: '/*', close: '*/' } },
      closeBrackets: { brackets: ['(', '[', '{', '"'] },
      wordChars: '%@/_',
    },
  };

  function languagePlugin(codemirror, language) {
    return {
      id: NAME + ':language',
      description: 'Colours of Relay',
      autoStart: true,
      requires: [codemirror.IEditorLanguageRegistry],
      activate(app, registry) {
        registry.addLanguage({
          name: 'relay',
          displayName: 'Relay',
          mime: MIME,
          extensions: ['rly', 'relay'],
          support: new language.LanguageSupport(language.StreamLanguage.define(parser)),
        });
      },
    };
  }

  /* What the kernel says about the place in the text; null when it says nothing. */
  async function inspect(tracker, text, position) {
    const panel = tracker && tracker.currentWidget;
    const kernel = panel && panel.sessionContext.session && panel.sessionContext.session.kernel;
    if (!kernel || kernel.status !== 'idle') {
      return null;
    }
    const codePoints = Array.from(text.slice(0, position)).length;
    const reply = await kernel.requestInspect({ code: text, cursor_pos: codePoints, detail_level: 0 });
    const content = reply.content;
    return content.status === 'ok' && content.found ? content.data['text/plain'] : null;
  }

  function hoverPlugin(codemirror, notebook, view) {
    return {
      id: NAME + ':hover',
      description: 'Types of Relay expressions under the mouse',
      autoStart: true,
      requires: [codemirror.IEditorExtensionRegistry],
      optional: [notebook.INotebookTracker],
      activate(app, registry, tracker) {
        const hover = async (model, editor, position) => {
          const found = model.mimeType === MIME && await inspect(tracker, editor.state.doc.toString(), position);
          if (!found) {
            return null;
          }
          const create = () => {
            const dom = document.createElement('pre');
            dom.style.margin = '4px 8px';
            /* Colours of terminals have no place here. */
            dom.textContent = found.replace(/\u001b\[[0-9;]*m/g, '');
            return { dom };
          };
          return { pos: position, create };
        };
        /* A cell gets its language once the kernel is known, hence the question comes as late as the mouse. */
        registry.addExtension({
          name: NAME + ':hover',
          factory: (options) => codemirror.EditorExtensionRegistry.createImmutableExtension(
            view.hoverTooltip((editor, position) => hover(options.model, editor, position))),
        });
      },
    };
  }

  async function extension() {
    const [codemirror, language, notebook, view] = await Promise.all([
      shared('@jupyterlab/codemirror'), shared('@codemirror/language'), shared('@jupyterlab/notebook'),
      shared('@codemirror/view'),
    ]);
    const plugins = [languagePlugin(codemirror, language), hoverPlugin(codemirror, notebook, view)];
    return () => ({ __esModule: true, default: plugins });
  }

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB[NAME] = {
    init(scope) {
      packages = scope;
    },
    get(module) {
      return module === './extension' ? extension() : Promise.reject(new Error(NAME + ': no module ' + module));
    },
  };
})();
