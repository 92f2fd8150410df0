"""Columns of users' files that nothing asks for are told."""

from fedjax_admm.trials.solve._words import told
from fedjax_admm.trials.tables._node_graphs import read_node_graph
from fedjax_admm.trials.tables._observations import read_observations
from fedjax_admm.trials.tables._ranges import read_ranges


def test_columns_that_nothing_asks_for_are_told(tmp_path):
    for ignored, where, text in (
        ([], "", ""),
        (["note"], " of the edges", "Column note of the edges is ignored."),
        (["", "é"], "", "Columns (without a name), é are ignored."),
    ):
        assert told("ignored.txt", ignored=ignored, where=where) == text
    (tmp_path / "ranges.csv").write_text("id,X,y,Range,t\n1,0,0,1,a\n2,1,0,1,b\n3,0,1,1,c\n")
    assert read_ranges(tmp_path / "ranges.csv").ignored == ("id", "t")
    (tmp_path / "rows.csv").write_text("who,a,b,c,y,when\n" + "k,1,2,3,4,5\nl,1,2,3,4,5\n" * 2)
    asked = {"node": "who", "target": "y", "features": "a[-1]", "coordinates": "b,c"}
    seen = read_observations(tmp_path / "rows.csv", **asked, at_least=1)
    assert seen.ignored == ("when",)
    text = told("rows.txt", seen=seen, what="", owner="node")
    assert text.splitlines()[-1] == "Column when is ignored."
    (tmp_path / "edges.csv").write_text("Source,length,Target,weights\nk,3,l,2\n")
    assert read_node_graph(tmp_path / "edges.csv", ("k", "l")).ignored == ("length", "weights")
