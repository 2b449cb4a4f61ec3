/* Diagnostics as text, colour, HTML and JSON.
 *
 *     error[E0207]: tuple index 2 is out of range
 *       --> In[4]:3:12
 *        |
 *      3 |   let %b = %pair.2;
 *        |            -----^^
 *        |            this is (Tensor[(3), float32], int32)
 *     help: fields count from 0; the last one is `.1`
 */
#ifndef BASE_RENDER_H
#define BASE_RENDER_H

#include "base/buf.h"
#include "base/diag.h"

typedef struct RenderStyle {
    bool color;             /* ANSI colours */
    bool html;              /* render_places: as HTML instead */
    int width; /* columns of the screen, which lines are broken and cut for; 0: nobody knows */
} RenderStyle;

void render_text(Buf *out, SourceMap *sources, const Diag *d, RenderStyle style);
/* Only the places: the lines of source with their marks. */
void render_places(Buf *out, SourceMap *sources, const Diag *d, RenderStyle style);
void render_html(Buf *out, SourceMap *sources, const Diag *d);
/* One line without its end, as cli.md fixes it. */
void render_json(Buf *out, SourceMap *sources, const Diag *d);

#endif
