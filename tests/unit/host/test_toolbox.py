"""Model-facing names: never two tools alike, whatever servers call theirs."""

from mcphost.host.servers.toolbox import NAME_LIMIT, Toolbox


def test_names_that_come_out_alike_are_told_apart_also_when_one_imitates_the_mark() -> None:
    alone = Toolbox(lambda: ())
    alone.name("a b", "t")
    marked = alone.name("a.b", "t")
    toolbox = Toolbox(lambda: ())
    # A third server's tool is named so that its plain name is the marked name of the second.
    imitation = toolbox.name("a", marked.removeprefix("a_").removeprefix("_"))
    names = [toolbox.name("a_b", marked.removeprefix("a_b__")), toolbox.name("a b", "t"), toolbox.name("a.b", "t")]
    assert len({imitation, *names}) == 4
    assert names == [
        toolbox.name("a_b", marked.removeprefix("a_b__")),
        toolbox.name("a b", "t"),
        toolbox.name("a.b", "t"),
    ]


def test_long_names_fit_and_stay_apart() -> None:
    toolbox = Toolbox(lambda: ())
    names = {toolbox.name("s", "x" * 100 + end) for end in "abc"}
    assert len(names) == 3
    assert all(len(name) <= NAME_LIMIT for name in names)
