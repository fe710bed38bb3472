"""What tests/model/run checks.

baselines: (name, bounds fixed at compile time, settings, only with --long)
switches:  (name, rules left out, the property that must fall, bounds fixed at compile time,
            settings); "none" where leaving the rule out must change nothing.
"""

NONE = "none"

MANAGED = {"TXNS": 2, "CRASHES": 1, "SPARE": 1}


def managed(rule, violates, *more, **settings):
    rules = (rule, *more)
    return ("+".join([*rules, *(key for key in settings if key.isupper())]), rules, violates, MANAGED, settings)


ENLISTED = {"TXNS": 2}
# What a client's own late writes do inside Kafka, whatever Lockstep does.
KAFKAS_OWN = {"undecided_committed": 1, "twice_committed": 1}


def enlisted(tv, rule, violates, *more, **settings):
    rules = (rule, *more) if rule else ()
    name = "+".join([*rules, *(key for key in settings if key.isupper())])
    return ("TV%d.%s" % (tv, name), rules, violates, ENLISTED, {"TV": tv, **settings})


MODELS = {
    "managed": {
        "baselines": [
            ("all rules", MANAGED, {}, False),
            ("all rules, markers readable", MANAGED, {"EVIDENCE": 1}, False),
            ("all rules, 2 crashes", {"TXNS": 2, "CRASHES": 2, "SPARE": 0}, {}, False),
            ("all rules, 3 txns", {"TXNS": 3, "CRASHES": 1, "SPARE": 0}, {}, True),
            ("all rules, both clusters faulty", {"TXNS": 2, "CRASHES": 1, "SPARE": 0},
             {"FAULTY": 2, "TIMEOUTS": 0}, True),
        ],
        "switches": [
            managed("CLEAN_A", "in_doubt"),
            managed("CLEAN_A", "undecided_committed", "M6"),
            managed("CLEAN_B", "undecided_committed"),
            managed("VOTE_CLEAN", "in_doubt"),
            managed("VOTE_CLEAN", "twice_committed", EVIDENCE=1),
            # What reading markers makes of the two that the design did not name.
            managed("M1", "in_doubt"),
            managed("M2_PENDING", "torn"),
            managed("M2_ABORT", "torn"),
            managed("M3", "undecided_committed"),
            managed("M4", "undecided_committed"),
            managed("M6", NONE),
            managed("M8", "torn"),
            managed("M17", "torn"),
            managed("M20", "torn"),
            managed("INIT_RETIRES", "torn"),
            managed("FENCE_EMPTY", "left_open"),
            managed("RECOVER_FIRST", "torn"),
            managed("SYNC_FIRST", "undecided_committed"),
            managed("ANSWER_SYNCED", "answer_lost"),
            managed("ALL_VOTES", "torn"),
            managed("CAS", "abort_answer_broken"),
            managed("ONE_VERSION", "in_doubt"),
            managed("ERROR_IS_NO_OUTCOME", "wrong_outcome"),
            managed("FORGET_LAST", "torn"),
        ],
    },
    "enlisted": {
        "baselines": [
            ("TV1 all rules", ENLISTED, {"TV": 1}, False),
            ("TV2 all rules", ENLISTED, {"TV": 2}, False),
            ("TV1 all rules, 3 txns", {"TXNS": 3}, {"TV": 1}, True),
            ("TV2 all rules, 3 txns", {"TXNS": 3}, {"TV": 2}, True),
        ],
        "switches": [
            enlisted(1, "M6", NONE),
            enlisted(1, "M6", "undecided_committed", "M11"),
            enlisted(1, "M9", "undecided_committed"),
            enlisted(2, "M9", "undecided_committed"),
            enlisted(1, "VOTE_EPOCH", "undecided_committed"),
            enlisted(2, "VOTE_EPOCH", "undecided_committed"),
            enlisted(1, "M10", "undecided_committed"),
            enlisted(2, "M10", "undecided_committed"),
            enlisted(1, "M11", "in_doubt"),
            enlisted(2, "M11", "in_doubt"),
            enlisted(1, "M12", "in_doubt"),
            enlisted(2, "M12", "in_doubt"),
            enlisted(1, "M13_ANSWER", "torn"),
            enlisted(1, "M13_ONGOING", NONE),
            enlisted(2, "M13_ANSWER", NONE),
            enlisted(2, "M13_ONGOING", NONE),
            enlisted(2, "M13_ANSWER", "torn", "M13_ONGOING"),
            enlisted(2, "M15", "in_doubt"),
            enlisted(1, "M16_WAITS", "torn"),
            enlisted(2, "M16_WAITS", "torn"),
            enlisted(1, "M16_RECREATES", "undecided_committed"),
            enlisted(1, "M16_INCARNATION", "undecided_committed"),
            enlisted(1, "REINIT", "undecided_committed"),
            enlisted(1, "M21_ABORTS", "torn"),
            enlisted(2, "M21_ABORTS", "torn"),
            enlisted(1, "M21_WAITS", "torn"),
            enlisted(2, "M21_WAITS", "torn"),
            # The alternative to M11 and M12: Enlist waits instead of Commit's answer.
            enlisted(1, "M11", NONE, ENLIST_WAITS=1),
            enlisted(2, "M11", NONE, "M12", ENLIST_WAITS=1),
            # What no rule of ours can prevent, and how it shows.
            enlisted(1, "EXCUSE", "torn"),
            enlisted(2, "EXCUSE", "torn"),
            enlisted(1, "", "in_doubt", LATE_WRITES=1),
            enlisted(1, "", NONE, LATE_WRITES=1, INFER=1, CRASHES=0, INITS=2, **KAFKAS_OWN),
        ],
    },
}
