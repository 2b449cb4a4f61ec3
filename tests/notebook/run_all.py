"""Run All in JupyterLab on a notebook whose first cell fails: the cells behind it do not run and keep no number.
Beside it the same with ipykernel.

    RELAY=build/release/relay RELAY_SOURCE=. .venv/bin/python tests/notebook/run_all.py [TRIES]
"""
# LABELS: slow

import sys

from browser import PANEL, Lab

BEHIND = 6
KERNELS = {"relay": "%nothing", "python3": "nothing"}


def run_all(page):
    """Runs all cells; what the cells behind the first show and their numbers, when every request was answered."""
    page.wait(f"{PANEL}.sessionContext.session?.kernel?.status === 'idle'", 60, "the kernel rests")
    return page.value(f"""(async () => {{
        const panel = {PANEL}, kernel = panel.sessionContext.session.kernel;
        await jupyterapp.commands.execute('notebook:clear-all-cell-outputs');
        try {{ await jupyterapp.commands.execute('notebook:run-all-cells'); }} catch (error) {{}}
        await kernel.requestKernelInfo();
        const cells = panel.content.widgets.slice(1);
        return {{ran: cells.filter(cell => cell.model.outputs.length > 0).length,
                 numbers: cells.filter(cell => cell.model.executionCount !== null &&
                                               cell.model.executionCount !== undefined).length,
                 waiting: cells.filter(cell => cell.node.innerText.includes('[*]')).length}};
    }})()""")


def main():
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    counts = {}
    with Lab() as lab:
        for kernel, wrong in KERNELS.items():
            name = f"{kernel}.ipynb"
            lab.write(name, {"wrong": wrong, **{f"behind-{i}": f"{i} + 1" for i in range(BEHIND)}}, kernel)
            page = lab.open(name, BEHIND + 1)
            run_all(page)
            seen = [run_all(page) for _ in range(tries)]
            counts[kernel] = {what: sum(one[what] > 0 for one in seen) for what in ("ran", "numbers", "waiting")}
            print(f"{kernel}: of {tries} tries a later cell ran in {counts[kernel]['ran']}, had a number in "
                  f"{counts[kernel]['numbers']}, still waits in {counts[kernel]['waiting']}", flush=True)
    assert not any(counts["relay"].values()), counts


main()
