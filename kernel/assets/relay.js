/* Relay for JupyterLab: colours in cells, in markdown and in .rly files; the type of what the mouse rests on and, in grey, of what was
 * bound without one; errors underlined as one types, with what may be meant; steps back in the debugger.
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

  /* The kernel of the panel in which an editor stands, or null. */
  function kernelOf(tracker, editor) {
    const panel = tracker && tracker.find((one) => one.node.contains(editor.dom));
    return (panel && panel.sessionContext.session && panel.sessionContext.session.kernel) || null;
  }

  /* What the kernel says about the place in the text; null when it says nothing. */
  async function inspect(kernel, text, position) {
    if (!kernel) {
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
          const found = model.mimeType === MIME && await inspect(kernelOf(tracker, editor), editor.state.doc.toString(), position);
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

  /* One conversation with each kernel about texts, what is wrong with them and the types in them: the answer to the latest question of an
   * editor counts. */
  const conversations = new WeakMap();
  function conversation(kernel) {
    if (!conversations.has(kernel)) {
      const comm = kernel.createComm('relay.check');
      const waiting = new Map();
      let last = 0;
      comm.onMsg = (message) => {
        const { seq, problems, types } = message.content.data;
        const answer = waiting.get(seq);
        waiting.delete(seq);
        if (answer) {
          answer(problems || [], types || []);
        }
      };
      comm.onClose = () => conversations.delete(kernel);
      comm.open({});
      conversations.set(kernel, (code, answer) => {
        last += 1;
        waiting.set(last, answer);
        comm.send({ seq: last, code });
      });
      /* A kernel that was started again knows nothing of it. */
      kernel.statusChanged.connect((_, status) => {
        if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
          conversations.delete(kernel);
        }
      });
    }
    return conversations.get(kernel);
  }

  function checkPlugin(codemirror, notebook, view, state, settingregistry) {
    const DELAY = 200; /* milliseconds after the last key */
    const ID = NAME + ':types'; /* as its settings are called */
    const editors = new Set();
    let inline = true;

    /* A type behind what it is of. */
    class TypeWidget extends view.WidgetType {
      constructor(text) {
        super();
        this.text = text;
      }

      eq(other) {
        return other.text === this.text;
      }

      toDOM() {
        const dom = document.createElement('span');
        dom.className = 'relay-type';
        dom.textContent = dom.title = this.text;
        return dom;
      }
    }

    const found = state.StateEffect.define();
    const none = { marks: view.Decoration.none, types: view.Decoration.none };
    const field = state.StateField.define({
      create: () => none,
      update(now, change) {
        const effect = change.effects.find((one) => one.is(found));
        const next = effect ? { ...now, ...effect.value } : now;
        return change.docChanged && !effect
          ? { marks: now.marks.map(change.changes), types: now.types.map(change.changes) } : next;
      },
      provide: (it) => [
        view.EditorView.decorations.from(it, (value) => value.marks),
        view.EditorView.decorations.from(it, (value) => inline ? value.types : view.Decoration.none),
      ],
    });

    /* Places come as code points. */
    const places = (text) => {
      const at = [0];
      for (const point of text) {
        at.push(at[at.length - 1] + point.length);
      }
      return (point) => at[Math.min(Math.max(point, 0), at.length - 1)];
    };
    /* A mark needs something that it stands under. */
    const marksOf = (text, problems) => {
      const place = places(text);
      return view.Decoration.set(problems.map((problem) => {
        const to = Math.max(place(problem.to), Math.min(place(problem.from) + 1, text.length));
        const from = Math.min(place(problem.from), to - 1);
        return from < 0 ? null : view.Decoration.mark({
          class: problem.severity === 'error' ? 'relay-wrong' : 'relay-doubtful',
          problem,
        }).range(from, to);
      }).filter(Boolean), true);
    };
    const typesOf = (text, types) => {
      const place = places(text);
      return view.Decoration.set(types.map(({ at, text: type }) =>
        view.Decoration.widget({ widget: new TypeWidget(type), side: 1 }).range(place(at))), true);
    };

    /* What is wrong where the mouse rests, and what may be meant, which a click puts there. */
    const tell = (editor, problem, from) => {
      const dom = document.createElement('div');
      dom.className = 'relay-problem';
      const message = document.createElement('pre');
      message.textContent = problem.code + ': ' + problem.message;
      dom.append(message);
      const place = places(editor.state.doc.toString());
      for (const fix of problem.fixes || []) {
        const button = document.createElement('button');
        button.className = 'jp-mod-styled jp-mod-minimal';
        button.textContent = fix.text.replace(/^[\s,]+(?=\S)/, '').trim() || '⌫';
        button.onclick = () => {
          /* The text may have moved, but not changed: then there is another answer. */
          const moved = from - place(problem.from);
          editor.dispatch({ changes: { from: place(fix.from) + moved, to: place(fix.to) + moved, insert: fix.text } });
          editor.focus();
        };
        dom.append(button);
      }
      return dom;
    };
    const tips = view.hoverTooltip((editor, position) => {
      let tip = null;
      editor.state.field(field).marks.between(position, position, (from, to, mark) => {
        tip = { pos: from, end: to, above: true, create: (it) => ({ dom: tell(it, mark.spec.problem, from) }) };
      });
      return tip;
    });

    const checker = (model, tracker) => view.ViewPlugin.fromClass(class {
      constructor(editor) {
        this.editor = editor;
        editors.add(this);
      }

      update(change) {
        if (change.docChanged && model.mimeType === MIME) {
          this.edited = true;
          clearTimeout(this.timer);
          this.timer = setTimeout(() => this.ask(), DELAY);
        }
      }

      /* What nobody has touched is wrong only because nothing was run yet: of that the types alone count. */
      ask() {
        const text = this.editor.state.doc.toString();
        const kernel = model.mimeType === MIME && kernelOf(tracker, this.editor);
        if (kernel) {
          conversation(kernel)(text, (problems, types) => {
            if (this.editor.state.doc.toString() === text) {
              const marks = this.edited ? { marks: marksOf(text, problems) } : {};
              this.editor.dispatch({ effects: found.of({ ...marks, types: typesOf(text, types) }) });
            }
          });
        }
      }

      destroy() {
        clearTimeout(this.timer);
        editors.delete(this);
      }
    });
    const theme = view.EditorView.baseTheme({
      '.relay-wrong': { textDecoration: 'underline wavy var(--jp-error-color1)' },
      '.relay-doubtful': { textDecoration: 'underline wavy var(--jp-warn-color1)' },
      '.relay-type': {
        color: 'var(--jp-ui-font-color3)', fontSize: '90%', display: 'inline-block', maxWidth: '40ch', overflow: 'hidden',
        textOverflow: 'ellipsis', verticalAlign: 'bottom', whiteSpace: 'pre',
      },
      '.relay-problem': { margin: '4px 8px', maxWidth: '80ch' },
      '.relay-problem pre': { margin: '0 0 4px', whiteSpace: 'pre-wrap' },
      '.relay-problem button': { fontFamily: 'var(--jp-code-font-family)', marginRight: '4px' },
    });
    return {
      id: ID,
      description: 'Types of Relay inline, and its errors underlined as one types',
      autoStart: true,
      requires: [codemirror.IEditorExtensionRegistry, notebook.INotebookTracker],
      optional: [settingregistry.ISettingRegistry],
      activate(app, registry, tracker, settings) {
        registry.addExtension({
          name: ID,
          factory: (options) => codemirror.EditorExtensionRegistry.createImmutableExtension(
            [field, theme, tips, checker(options.model, tracker)]),
        });
        /* What was defined gives what stands in other cells its types. */
        notebook.NotebookActions.executed.connect((_, { notebook: widget }) => {
          editors.forEach((one) => widget.node.contains(one.editor.dom) && one.ask());
        });
        const follow = (loaded) => {
          inline = loaded.get('inline').composite !== false;
          editors.forEach((one) => one.editor.dispatch({ effects: found.of({}) }));
        };
        settings && settings.load(ID).then((loaded) => {
          loaded.changed.connect(follow);
          follow(loaded);
        }, () => undefined);
      },
    };
  }

  /* JupyterLab's debugger has no buttons for the way back: they stand beside its own where the kernel can go it. */
  function backPlugin(debug, components) {
    /* Each is put in front of the one before. */
    const ways = { reverseContinue: ['Continue Backwards', components.refreshIcon], stepBack: ['Step Back', components.undoIcon] };
    return {
      id: NAME + ':back',
      description: 'Steps back in the debugger',
      autoStart: true,
      requires: [debug.IDebugger],
      optional: [debug.IDebuggerSidebar],
      activate(app, service, sidebar) {
        const buttons = [];
        const able = () => !!(service.session && service.session.capabilities && service.session.capabilities.supportsStepBack);
        for (const [request, [label, icon]] of Object.entries(ways)) {
          const id = NAME + ':' + request;
          app.commands.addCommand(id, {
            label,
            caption: label,
            icon,
            isEnabled: () => able() && service.hasStoppedThreads(),
            execute: () => service.session.sendRequest(request, { threadId: [...service.model.stoppedThreads][0] }),
          });
          if (sidebar && sidebar.callstack) {
            const button = new components.CommandToolbarButton({ commands: app.commands, id, label: '' });
            sidebar.callstack.toolbar.insertAfter('step-out', request, button);
            buttons.push(button);
          }
        }
        /* Another kernel may not go back; and whether one stands still changes with each event. */
        const look = () => {
          buttons.forEach((button) => button.setHidden(!able()));
          app.commands.notifyCommandChanged();
        };
        look();
        service.eventMessage.connect(look);
        service.sessionChanged.connect(look);
        /* JupyterLab empties the list of variables when something was evaluated, and fills it for another frame alone. */
        let shown;
        service.model.callstack.framesChanged.connect((calls) => {
          if (able() && calls.frame && calls.frame === shown && !service.model.variables.scopes.length)
            calls.frame = shown;
          shown = calls.frame;
        });
      },
    };
  }

  async function extension() {
    const [codemirror, language, notebook, view, state, debug, components, settingregistry] = await Promise.all([
      shared('@jupyterlab/codemirror'), shared('@codemirror/language'), shared('@jupyterlab/notebook'),
      shared('@codemirror/view'), shared('@codemirror/state'), shared('@jupyterlab/debugger'),
      shared('@jupyterlab/ui-components'), shared('@jupyterlab/settingregistry'),
    ]);
    const plugins = [languagePlugin(codemirror, language), hoverPlugin(codemirror, notebook, view),
      checkPlugin(codemirror, notebook, view, state, settingregistry), backPlugin(debug, components)];
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
