"""The page's modules as one text: forms of imports and exports, and what one text cannot have."""

import re

import pytest

from ridgeline.service.notebook.module import bundled, widget_module


def folder(tmp_path, **files):
    for name, text in files.items():
        (tmp_path / name.replace("_js", ".js").replace("_css", ".css")).write_text(text)
    return tmp_path


def test_the_widget_is_one_module_without_an_address():
    text = widget_module()
    assert not re.search(r"^\s*import\b|\bimport\s*\(|import\.meta|\bfetch\s*\(", text, re.MULTILINE)
    assert len(re.findall(r"^export\b", text, re.MULTILINE)) == 1
    assert "Copyright (c) 2015-present Jason Miller" in text


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"a_js": 'import {b} from "./b.js";\n', "b_js": 'import {a} from "./a.js";\n'},
            "a.js -> b.js -> a.js",
        ),
        ({"a_js": 'import {b} from "../b.js";\n'}, "a.js imports ../b.js, which is no file of the page"),
        ({"a_js": 'import {b} from "./missing.js";\n'}, "a.js imports ./missing.js"),
        ({"a_js": 'import {b} from "preact";\n'}, "a.js imports preact"),
        ({"a_js": 'const b = await import("./b.js");\n'}, "cannot have this of a.js: import"),
        ({"a_js": "export let changing = 1;\n"}, "cannot have this of a.js: export let changing"),
        ({"a_js": 'export * from "./b.js";\n'}, "cannot have this of a.js: export"),
        ({"a_js": "const here = import.meta.url;\n"}, "cannot have this of a.js: import.meta.url"),
        (
            {"a_js": 'import {b, c as d} from "./b.js";\n', "b_js": "export const b = 1, c = 2;\n"},
            "a.js imports c of b.js, which does not export it",
        ),
        (
            {"a_js": 'import b from "./b.js";\n', "b_js": "export const b = 1;\n"},
            "a.js imports default of b.js",
        ),
        ({"a_js": 'import b, {c} from "./b.js";\n', "b_js": "export const c = 1;\n"}, "is not known: b, {c}"),
    ],
)
def test_what_one_text_cannot_have_is_named(tmp_path, files, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        bundled(folder(tmp_path, **files), "a.js")
