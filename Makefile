# A thin front: the build is CMake's, the steps are in scripts/. Each step is skipped when it is done.

.PHONY: run test notebook build format install clean

run: build
	@sh scripts/run.sh

build:
	@sh scripts/setup.sh run
	@sh scripts/build.sh release

test:
	@sh scripts/setup.sh run test
	@sh scripts/venv.sh test
	@sh scripts/test.sh

notebook: build
	@sh scripts/setup.sh notebook
	@sh scripts/venv.sh notebook
	@sh scripts/notebook.sh

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' ':!tests/bench' | xargs clang-format-19 -i

install: build
	@cmake --install build/release $(if $(PREFIX),--prefix "$(PREFIX)")

clean:
	rm -rf build
