"""PHP of docs/recipes/laravel.md can be parsed. It is not run."""

from __future__ import annotations

import tree_sitter_php
from tree_sitter import Language, Parser

from support.documents import ROOT

PARSER = Parser(Language(tree_sitter_php.language_php()))


def test_the_configuration_is_valid_php() -> None:
    file = ROOT / "docs/examples/laravel/queue.php"
    tree = PARSER.parse(file.read_bytes())
    assert not tree.root_node.has_error
    assert PARSER.parse(file.read_bytes().replace(b"=>", b"=")).root_node.has_error
