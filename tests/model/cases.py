"""What tests/model/run checks.

baselines: (name, bounds fixed at compile time, settings, only with --long)
switches:  (name, rules left out, the property that must fall, bounds fixed at compile time,
            settings); "none" where leaving the rule out must change nothing.
"""

NONE = "none"

MANAGED = {"TXNS": 2, "CRASHES": 1, "SPARE": 1}


def managed(rule, violates, *more):
    rules = (rule, *more)
    return ("+".join(rules), rules, violates, MANAGED, {})


MODELS = {
    "managed": {
        "baselines": [
            ("all rules", MANAGED, {}, False),
            ("all rules, 2 crashes", {"TXNS": 2, "CRASHES": 2, "SPARE": 0}, {}, False),
        ],
        "switches": [
            managed("CLEAN_A", "in_doubt"),
            managed("CLEAN_A", "undecided_committed", "M6"),
            managed("CLEAN_B", "undecided_committed"),
            managed("VOTE_CLEAN", "in_doubt"),
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
}
