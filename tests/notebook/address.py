"""`make notebook`: the address that it prints opens the tour."""
# LABELS: slow

import os

from browser import SOURCE, Lab, start, stop


def main():
    with Lab() as lab:
        environment = {**os.environ, "HOME": lab.folder, "JUPYTER_OPTIONS": "--no-browser --port=0",
                       "JUPYTER_CONFIG_DIR": os.path.join(lab.folder, "mine"),
                       "JUPYTERLAB_WORKSPACES_DIR": os.path.join(lab.folder, "more-workspaces"),
                       "JUPYTERLAB_SETTINGS_DIR": os.path.join(lab.folder, "settings")}
        process, found = start(["sh", os.path.join(SOURCE, "scripts", "notebook.sh")], r"(http://127\.0\.0\.1:\d+/\S*)",
                               os.path.join(lab.folder, "make.log"), environment)
        try:
            lab.page.call("Page.enable")
            lab.page.call("Page.navigate", url=found[1])
            lab.page.wait("document.querySelector('.jp-Notebook')?.innerText.includes('A walk through Relay')", 120,
                          f"{found[1]} opens the tour")
        finally:
            stop(process)


main()
