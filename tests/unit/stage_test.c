/* What a caller of the library can ask a stage for, and the command line cannot. */
#include "check.h"
#include "include/relay.h"

#include <string.h>

static char title[200];

static void note(void *data, const RelayOutput *out)
{
    (void)data;
    if (out->kind == RELAY_OUTPUT_DIAGNOSTIC)
        snprintf(title, sizeof title, "%s", out->title);
}

static bool refused(RelaySession *s, const char *stage, RelayParam param, const char *wanted)
{
    const char text[] = "#[version = \"0.0.5\"]\ndef @main() { 1 }";
    const RelayRequest request = {
        .stage = stage, .text = text, .len = strlen(text), .params = &param, .n_params = 1};
    title[0] = 0;
    bool good = relay_session_stage(s, &request, (RelaySink){note, NULL}) == RELAY_USAGE &&
                !strcmp(title, wanted);
    if (!good)
        printf("%s: %s\n", stage, title);
    return good;
}

int main(void)
{
    RelaySession *s = relay_session_new(&(RelayOptions){.threads = 1});
    CHECK(refused(s, "link", (RelayParam){"out", "a"}, "there is no stage `link`"));
    CHECK(refused(s, "run", (RelayParam){"O", "9"}, "`-O 9`: the levels are 0 to 5"));
    CHECK(refused(s, "run", (RelayParam){"exec", "fast"},
                  "`--exec fast`: there are the engines auto, interp, jit and gpu"));
    CHECK(refused(s, "bench", (RelayParam){"exec", "fast"},
                  "`--exec fast`: there are the engines auto, interp, jit and gpu"));
    relay_session_free(s);
    return check_done();
}
