"""What every test may rely on, wherever the suite was started from."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

# The configuration files of whoever runs the tests decide nothing.
os.environ["BW_CONFIG"] = os.devnull

# How long an example takes depends on what else the machine does, and is no property of the code.
# The examples are those of every run, as the seeds of all other tests are: a run says what the
# change does, not what chance does.
settings.register_profile("shared-machine", deadline=None, derandomize=True)
settings.load_profile("shared-machine")

# A shell without job control starts its background jobs with SIGINT and SIGQUIT ignored, nohup
# ignores SIGHUP, and programs inherit that: then no test could interrupt what it started.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(
            _number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL
        )

# Tests of these files need the machine to themselves: they measure, or they look at or change what
# all programs of the machine share. `make test` runs them one after the other, the rest in
# parallel.
ALONE = {
    "e2e": "limiters load_http load_stall observers peak_real quiet why_servers",
    "kernel": "chill engine_abilities machine_real profile quiet_real resource_use sampler",
}
_ALONE = {f"{folder}/test_{name}.py" for folder, names in ALONE.items() for name in names.split()}

# Tests that take seconds each, by file: `make check` leaves them out.
SLOW = {
    "compare_session": "a_crash_at_every_request_changes_nothing",
    "hooks": "processes_that_vanish_while_read_do_no_harm",
    "layers": "imports_go_downward nothing_is_evaluated pure_rooms_take_no_clock_and_no_randomness",
    "load_cli": "a_study_keeps_the_document_and_the_samples an_error_of_the_engine_keeps_its_place progress_is_on_stderr_and_can_be_silenced trials_differ_in_what_is_random_unless_a_seed_is_said",
    "long_words": "every_command_takes_or_refuses_a_long_word no_expression_is_quadratic",
    "peak_algorithm2": "the_model_may_never_converge",
    "peak_check": "the_order_of_the_sides_depends_on_the_seed_and_on_nothing_else no_change_is_seen_where_there_is_none",
    "peak_guess": "a_search_with_a_guess_finds_the_same_peak",
    "peak_monotone": "a_search_cut_at_any_trial_goes_on_to_the_same_answer a_jump_across_the_region_is_no_region curves_that_grow_are_found_as_often_as_is_claimed",
    "peak_small_budgets": "a_small_budget_is_enough_for_a_true_answer_or_bound more_time_makes_the_answer_surer",
    "plot_cli": "a_users_settings_of_matplotlib_change_nothing every_format_can_be_read_back fonts_are_embedded_as_truetype labels_are_text_in_any_script_and_never_formulas two_drawings_are_the_same_bytes_and_hold_no_time",
    "plot_golden": "the_papers_command_lines_draw_what_is_recorded",
    "plot_sheet": "every_sheet_is_drawn_in_every_form_the_same_twice",
    "quiet": "killed_at_every_point_the_machine_comes_back",
    "ramp_cli": "a_ramp_cut_at_any_trial_ends_alike",
    "ramp_policy": "a_ramp_is_a_function_of_its_history",
    "ramp_report": "every_form_can_be_drawn the_name_of_the_saturation_is_clear_of_the_legend",
    "search_session": "a_search_cut_at_a_trial_goes_on_to_the_same_answer a_search_cut_at_every_trial_in_turn_ends_with_the_same_answer",
    "series_damage": "a_changed_value",
    "session": "a_crash_at_every_request_changes_nothing",
    "stats_multiplicity": "adjusted_p_values_are_statsmodels",
    "study_damage": "a_damaged_journal_is_as_written_or_refused a_damaged_log_is_as_written_up_to_a_torn_end_or_refused",
    "suite_mistakes": "includes_that_double_have_a_limit",
    "surface": "documents_have_the_members_of_their_types",
    "surface_session": "a_mapping_cut_at_any_trial_ends_with_the_same_surface",
    "viewer": "a_page_can_be_made_after_every_row",
    "trace_cli": "a_picture_is_written_and_told",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run alone, and the slow ones."""
    for item in items:
        if f"{item.path.parent.name}/{item.path.name}" in _ALONE:
            item.add_marker(pytest.mark.alone)
        file, function = (item.path.stem.removeprefix("test_"), item.name.partition("[")[0])
        if function.removeprefix("test_") in SLOW.get(file, "").split():
            item.add_marker(pytest.mark.slow)
