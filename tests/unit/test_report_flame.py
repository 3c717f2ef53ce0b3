"""Flame graphs: valid, whole, self-contained; a difference says who is who."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from benchwright.core.observation import FoldedStacks
from benchwright.features.profile.flame_graph import (
    INLINE_MOST_BYTES,
    change_lines,
    difference_svg,
    flame_svg,
    frame_colour,
    inline_flame_svg,
    share_changes,
)
from benchwright.features.profile.profiler import profile_of
from benchwright.views.tests import profile_lines

SVG = "{http://www.w3.org/2000/svg}"
STACKS = FoldedStacks(
    {("a", "main"): 30, ("a", "main", "read", "vfs_[k]"): 60, ("b", "x<&\x1by"): 10}
)


def frames(svg: str) -> dict[str, tuple[float, float, str]]:
    """Return left, width [samples] and title of each frame by its name."""
    found = {}
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        if "data-n" in group.attrib:
            place = float(group.attrib["data-x"]), float(group.attrib["data-w"])
            title = group.find(f"{SVG}title")
            assert title is not None
            assert title.text is not None
            found[group.attrib["data-n"]] = (*place, title.text)
    return found


def test_widths_are_samples_and_children_stay_above_their_parents() -> None:
    found = frames(flame_svg(STACKS, "t"))
    assert {name: place[:2] for name, place in found.items()} == {
        "all": (0, 100),
        "a": (0, 90),
        "main": (0, 90),
        "read": (0, 60),
        "vfs": (0, 60),
        "b": (90, 10),
        "x<&?y": (90, 10),
    }
    assert found["vfs"][2] == "vfs (kernel): 60 samples, 60.00 %"


def test_nothing_is_loaded_from_elsewhere() -> None:
    svg = flame_svg(STACKS, "t")
    assert "href" not in svg
    assert svg.count("http") == 1


def test_kernel_frames_are_bluer_than_red_and_programs_the_other_way() -> None:
    for name in ("vfs", "read", "main"):
        for kernel in (False, True):
            text = frame_colour(name + "_[k]" if kernel else name)
            red, _, blue = map(int, text[4:-1].split(","))
            assert (blue > red) is kernel


def test_frames_too_narrow_to_see_are_left_out() -> None:
    many = FoldedStacks({("a", "wide"): 100_000, ("a", "narrow"): 1})
    assert set(frames(flame_svg(many, "t"))) == {"all", "a", "wide"}


def test_a_graph_of_nothing_is_still_a_document() -> None:
    assert set(frames(flame_svg(FoldedStacks({}), "t"))) == {"all"}


def test_a_difference_is_of_shares_and_names_the_arms() -> None:
    slow = FoldedStacks({("a", "main", "old"): 500, ("a", "main", "same"): 500})
    fast = FoldedStacks({("a", "main", "new"): 20, ("a", "main", "same"): 180})
    svg = difference_svg(slow, fast, ("one", "two"))
    assert "two (candidate) against one (baseline)" in svg
    found = frames(svg)
    assert found["old"][2].startswith("old: 50 % of baseline, 0 % of candidate")
    assert found["same"][2].endswith("(+40.00 points)")
    total = found["all"][1]
    assert found["same"][1] / total == pytest.approx((0.5 + 0.9) / 2)
    assert list(change_lines(share_changes(slow, fast))) == [
        "old: 50 % -> 0 % of the time (-50.0 points)",
        "same: 50 % -> 90 % of the time (+40.0 points)",
        "new: 0 % -> 10 % of the time (+10.0 points)",
    ]


def test_equal_arms_differ_nowhere() -> None:
    same = FoldedStacks({("a", "x"): 53, ("a", "y"): 47})
    nearly = FoldedStacks({("a", "x"): 47, ("a", "y"): 53})
    assert list(change_lines(share_changes(same, nearly))) == []
    assert "rgb(235," not in difference_svg(same, nearly, ("one", "two"))


def test_an_arm_without_samples_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        share_changes(STACKS, FoldedStacks({}))


def test_the_words_name_the_busiest_and_what_has_no_name() -> None:
    folded = FoldedStacks({("a", "read", "vfs_[k]"): 60, ("a", "[dash]"): 40})
    assert list(profile_lines(profile_of(folded, 99))) == [
        "profile: vfs (kernel) 60 %, [dash] 40 %; 60 % in the kernel (100 samples)",
        "profile: 40 % in functions without a name: install debug symbols, "
        "or build with -g -fno-omit-frame-pointer",
    ]


def test_stacks_that_are_not_known_are_told() -> None:
    folded = FoldedStacks({("a", "write"): 30, ("a", "main", "read"): 70})
    assert list(profile_lines(profile_of(folded, 99)))[1:] == [
        "profile: of 30 % only the innermost function is known, not what called it: "
        "build with -fno-omit-frame-pointer"
    ]


def test_the_graph_of_a_page_has_no_script_and_no_style() -> None:
    root = ET.fromstring(inline_flame_svg(STACKS, "<t>"))
    tags = {element.tag for element in root.iter()}
    assert tags == {"svg", "title", "g", "rect", "text"}
    attributes = {name for element in root.iter() for name in element.attrib}
    assert not {name for name in attributes if name == "style" or name.startswith("on")}
    titles = [title.text for title in root.iter("title")]
    assert "x<&?y: 10 samples, 10 %" in titles
    kernel = [box.get("class", "") for box in root.iter("rect")]
    assert sum(name.startswith("k") for name in kernel) == 1


def test_the_graph_of_a_page_leaves_out_rare_frames() -> None:
    stacks = FoldedStacks({("a", "often"): 9_995, ("a", "rare"): 5})
    text = inline_flame_svg(stacks, "t")
    assert "often" in text
    assert "rare" not in text


def test_the_graph_of_a_page_has_a_largest_size() -> None:
    """900 functions, each above 0.1 %, under 40 callers with long names."""
    callers = tuple(f"caller_{at}_{'x' * 60}" for at in range(40))
    stacks = FoldedStacks({(*callers, f"f{at}_{'y' * 300}"): 100 for at in range(900)})
    assert len(inline_flame_svg(stacks, "t").encode()) <= INLINE_MOST_BYTES
