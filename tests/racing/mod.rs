//! The facts of racing that programs often get wrong, each with the test of it through the public interfaces.
//!
//! `p/` is `projections/tests/`, `e/` is `events/src/`, `i/` is `importers/src/`. Tests without a file are in
//! `racing/`.
//!
//! | placings | |
//! |---|---|
//! | dead heats: 3, 3, then 5 | `after_a_dead_heat_for_third_comes_fifth` |
//! | a winner that shares first place has won | `a_winner_that_shares_first_place_has_won` |
//! | three-way ties exist | `three_runners_may_share_a_place` |
//! | | `runners_in_a_dead_heat_are_in_the_order_of_the_feeder` |
//! | real dead heats | `the_dead_heats_of_a_real_season_are_placed_and_counted_as_they_were_run` |
//! | a disqualification moves those behind | `a_disqualification_moves_the_runners_that_shared_third` |
//! | a disqualified horse keeps its time | `a_disqualified_horse_keeps_its_time_and_its_price` |
//! | WV, WV-A, WX, WX-A, WXNR, PU, UR, FE, DNF, TNP, DISQ, VOID have no position | `every_outcome_code_is_unplaced_and_either_a_start_or_not` |
//! | VOID counts for nobody | `a_void_outcome_counts_for_nothing_not_even_stakes` |
//! | times and odds are written `---` | `times_and_odds_written_as_dashes_are_unknown`, `dashes_in_an_event_are_rejected_with_the_field_and_stop_nothing` |
//! | a result may leave out a withdrawn runner | `a_withdrawn_runner_that_the_result_leaves_out_is_unplaced_in_its_form` |
//! | codes that are not in any list | `every_outcome_but_a_withdrawal_and_a_void_is_a_start` (e/outcome.rs) |
//!
//! | results that change | |
//! |---|---|
//! | results change hours, days, months after they were official | `a_result_changes_hours_days_and_months_after_it_was_official` |
//! | | `every_amendment_and_the_void_are_published_live` |
//! | rows are published by mistake and deleted | `a_row_published_by_mistake_is_deleted_again`, `a_result_published_by_mistake_is_deleted_whole` |
//! | another winner, with other races between | `an_amendment_months_later_changes_the_winner_and_nothing_of_the_races_between` |
//! | careers are recounted | `a_career_from_before_the_log_stays_while_races_are_amended_and_voided` |
//! | careers, forms and results of any history | `results_forms_and_careers_equal_an_independent_count` (p/recount.rs) |
//! | a void race is run again | `a_voided_race_is_run_again_under_its_number` |
//! | a card after its result | `a_card_after_its_result_fills_in_what_the_result_left_out`, `results_may_come_before_or_after_all_other_facts_of_their_races` (p/properties.rs) |
//!
//! | meetings | |
//! |---|---|
//! | (date, race number) is no key: S1 simulcasts run beside local races | `date_and_race_number_are_no_key_simulcasts_run_beside_local_races` |
//! | | `odds_of_another_meeting_are_never_served` |
//! | two meetings on one date | `the_configured_order_of_venues_decides_the_primary_meeting`, `two_meetings_on_a_day_are_chosen_by_venue_and_never_by_arrival` (contract.rs) |
//! | race numbers have gaps | `race_numbers_have_holes` |
//! | a race at 00:20 belongs to the evening before | `a_race_at_00_20_belongs_to_the_evening_before`, `the_off_time_is_in_hong_kong_and_after_midnight_on_the_next_day` (i/hkjc/cards.rs) |
//! | off times by a 12-hour clock are not in the order of their digits | `races_are_numbered_by_the_clock_from_the_longest_pause` (i/rpscrape/meetings.rs) |
//! | rows of a race stand apart in a file | `a_race_whose_rows_are_apart_is_rejected_whole` (i/rpscrape/tests.rs, i/hkjc/zh_results.rs) |
//! | today is the date in a time zone | `today_is_the_day_in_the_configured_zone`, `today_ends_at_midnight_in_the_configured_zone`, `midnight_moves_with_summer_time` (src/clock.rs), `a_day_without_a_meeting_returns_404_with_the_time_zone` (contract.rs) |
//! | races and meetings are abandoned | `an_abandoned_race_is_200_with_its_status`, `an_abandoned_meeting_is_200_with_its_status` |
//!
//! | horses | |
//! |---|---|
//! | short brands are reused | `a_reused_brand_is_another_horse`, `a_brand_and_a_name_identify_a_horse` (i/hkjc/horse_ids.rs) |
//! | names are shared | `a_name_may_be_shared_even_in_one_race` |
//! | horses change trainer, owner, sex and name | `a_horse_changes_trainer_owner_sex_and_name_and_its_form_keeps_what_was_true_then` |
//! | races leave out names | `an_unregistered_horse_keeps_a_name_that_a_later_race_leaves_out` |
//! | distance and class are missing in group races | `missing_distance_and_class_keep_the_types_and_the_race`, `unknown_values_are_zero_or_empty` (i/hkjc/cards.rs) |
//! | birthdays are by hemisphere | `a_horse_has_its_birthday_by_the_hemisphere_in_which_it_was_bred`, and those of `projections/src/official_age.rs` |
//!
//! | feeds | |
//! |---|---|
//! | clocks tie: the log's order is the order | `the_order_of_the_log_decides_between_two_feeders_with_equal_times` |
//! | two sources quote one race, one with a late clock | `two_sources_of_which_one_is_late_and_one_dies_are_never_mixed_on_any_replica` |
//! | feeds repeat themselves | `a_feed_that_repeats_itself_changes_nothing`, `a_repeated_fact_changes_nothing` (p/properties.rs) |
//! | importing twice changes nothing, and files repeat races | `importing_twice_changes_nothing_nor_do_files_that_repeat_themselves`, `a_whole_season_is_served_as_it_was_run_and_a_second_import_changes_no_byte` (season.rs) |

mod amendments;
mod feeds;
mod horses;
mod meetings;
mod placings;
mod real;
mod sources;
mod year;
