/*
 * Managed lanes: transactions that Lockstep opens itself, over two clusters, on librdkafka
 * producers (TV1) that are used again and again, by a coordinator that crashes.
 *
 * docs/design/model.md says what is covered, within which bounds, and what every switch shows.
 *
 * Bounds and rules come first. A verifier takes them from its environment: M3=0 ./pan checks the
 * protocol without rule M3. Each CHECK names the property it guards; that name is what
 * tests/model/run compares.
 */

/* ---- bounds ---- */
#ifndef TXNS
#define TXNS 2 /* global transactions, begun in order; 2 or 3 */
#endif
#ifndef CRASHES
#define CRASHES 1 /* of the coordinator */
#endif
#ifndef SPARE
#define SPARE 0 /* transactional.ids to spend on unanswered InitProducerId, a cluster */
#endif
hidden byte TIMEOUTS = 1; /* transactions that a broker's timeout aborts */
hidden byte FAULTY = 1;   /* clusters whose network loses and delays and whose brokers time out */

hidden byte EVIDENCE = 0; /* 1: markers are there to be read when Describe proves nothing */

/* ---- rules: 0 leaves one out ---- */
hidden byte CLEAN_A = 1; /* a lane is reused only once its completion is durable */
hidden byte CLEAN_B = 1; /* an unanswered EndTxn of its own makes a lane unclean */
hidden byte VOTE_CLEAN = 1; /* a lane with an unanswered write votes NO */
hidden byte M1 = 1; /* completion is durable before any InitProducerId on that id */
hidden byte M2_PENDING = 1; /* a decision whose write is in flight is pending */
hidden byte M2_ABORT = 1; /* a lane lost after its YES first aborts its transaction */
hidden byte M3 = 1; /* an unanswered write makes a lane unclean */
hidden byte M4 = 1; /* a wire EndTxn to a live lane's id makes it unclean */
hidden byte M6 = 1; /* the start time is part of a v0-4 transaction's name */
hidden byte M8 = 1; /* an operator's resolve goes through the state machine */
hidden byte M17 = 1; /* after the decision a failing lane is destroyed, never aborted */
hidden byte M20 = 1; /* lane ids carry the incarnation */
hidden byte INIT_RETIRES = 1; /* an unanswered InitProducerId retires the transactional.id */
hidden byte FENCE_EMPTY = 1; /* recovery fences old ids that are Empty, too */
hidden byte RECOVER_FIRST = 1; /* recovery runs EndTxn before InitProducerId */
hidden byte SYNC_FIRST = 1; /* EndTxn is sent only after the decision's sync */
hidden byte ANSWER_SYNCED = 1; /* the client is answered only after the decision's sync */
hidden byte ALL_VOTES = 1; /* commit needs every vote */
hidden byte CAS = 1; /* the decision is a compare-and-set against abort and expiry */
hidden byte ONE_VERSION = 1; /* a participant is ended in one protocol only */
hidden byte ERROR_IS_NO_OUTCOME = 1; /* an error answer is never read as an outcome */
hidden byte FORGET_LAST = 1; /* a decision is forgotten only after the last acknowledgement */

#define FromEnvironment                                                                  \
  SET(TIMEOUTS) SET(FAULTY) SET(EVIDENCE) SET(CLEAN_A) SET(CLEAN_B) SET(VOTE_CLEAN)      \
  SET(M1) SET(M2_PENDING) SET(M2_ABORT) SET(M3) SET(M4) SET(M6) SET(M8) SET(M17)         \
  SET(M20) SET(INIT_RETIRES) SET(FENCE_EMPTY) SET(RECOVER_FIRST) SET(SYNC_FIRST)         \
  SET(ANSWER_SYNCED) SET(ALL_VOTES) SET(CAS) SET(ONE_VERSION)                            \
  SET(ERROR_IS_NO_OUTCOME) SET(FORGET_LAST) SET(undecided_committed)                     \
  SET(twice_committed) SET(torn) SET(wrong_outcome) SET(answer_lost)                     \
  SET(abort_answer_broken) SET(in_doubt) SET(left_open)

/* ---- two clusters, and the ids that the lane of each may use ---- */
#define IDS (CRASHES + SPARE + 1)
#define NX (2 * IDS)
#define X(c, i) ((c) * IDS + (i))
#define ClusterOf(x) ((x) / IDS)
#define T(n, c) ((n) * 2 + (c))
#define LATE 15 /* the start time of a transaction that a late write opened */

/* What became of transaction n on cluster c. Ghosts: only checks read them. */
#define COMMITTED 1
#define ABORTED 2
byte fate[TXNS * 2];   /* bits */
bit expired[TXNS * 2]; /* the broker's timeout aborted it */
bit decided[TXNS];     /* durably, ever */
bit answered[TXNS];    /* the client knows of the decision: it outlives our crash */

/* ---- properties: 1 leaves one unchecked ---- */
hidden byte undecided_committed; /* committed, though nobody decided so */
hidden byte twice_committed; /* a write became visible again, or after its abort */
hidden byte torn; /* decided, and a cluster aborted it; unless its own timeout did */
hidden byte wrong_outcome; /* an outcome that the coordinator understood is not the true one */
hidden byte answer_lost; /* a client knows of a decision that a crash took away */
hidden byte abort_answer_broken; /* a client was told ABORTED, and it commits */
hidden byte in_doubt; /* at rest, a participant's outcome is not known */
hidden byte left_open; /* at rest, a transaction is open that nobody will end */
#define CHECK(name, cond) assert((cond) || name)

inline committedHere(n, x) {
  if
  :: bc[x] & (1 << n) ->
     CHECK(undecided_committed, decided[n]);
     CHECK(twice_committed, fate[T(n, ClusterOf(x))] == 0);
     fate[T(n, ClusterOf(x))] = fate[T(n, ClusterOf(x))] | COMMITTED
  :: else
  fi
}

inline abortedHere(n, x) {
  if
  :: bc[x] & (1 << n) ->
     CHECK(torn, !decided[n] || expired[T(n, ClusterOf(x))] ||
                   (fate[T(n, ClusterOf(x))] & COMMITTED));
     fate[T(n, ClusterOf(x))] = fate[T(n, ClusterOf(x))] | ABORTED
  :: else
  fi
}

#if TXNS > 2
#define Any(S, c, x) (S(0, c, x) || S(1, c, x) || S(2, c, x))
#define OnCommit(x) committedHere(0, x); committedHere(1, x); committedHere(2, x)
#define OnAbort(x) abortedHere(0, x); abortedHere(1, x); abortedHere(2, x)
#else
#define Any(S, c, x) (S(0, c, x) || S(1, c, x))
#define OnCommit(x) committedHere(0, x); committedHere(1, x)
#define OnAbort(x) abortedHere(0, x); abortedHere(1, x)
#endif
#define MARKERS 0
#include "kafka.pml"

/* ---- the log ---- */
#define ABSENT 0
#define BUFFERED 1 /* written, not synced: a crash may lose it */
#define DURABLE 2
#define FORGOTTEN 3
byte dec[TXNS]; /* the COMMIT decision; it names each participant: */
byte pId[TXNS * 2], pEpoch[TXNS * 2], pStart[TXNS * 2];
byte comp[TXNS * 2];    /* completion of one participant: */
byte outcome[TXNS * 2]; /* COMMITTED or ABORTED, as the coordinator understood it */
#define P(n, c) pId[T(n, c)]

/* ---- the coordinator's memory ---- */
#define ACTIVE 0
#define GONE 1 /* aborted, and the client was told so in the same moment */
#define COMMITTING 2
byte ts[TXNS];

#define NOT_TAKEN 0
#define TAKEN 1
#define YES 2
byte vote[TXNS * 2];
bit armed[TXNS * 2]; /* Describe showed our transaction Ongoing: EndTxn is next */

#define DOWN 0 /* no producer */
#define READY 1
#define OPEN 2    /* a first write was sent and not answered */
#define WRITTEN 3 /* as many good delivery reports as records */
#define VOTED 4
#define ENDED 5 /* librdkafka's own commit or abort returned OK */
byte lane[2];
byte cur[2]; /* its transaction */
byte laneEpoch[2];
bit unclean[2]; /* an EndTxn of this transaction was unanswered, or not the lane's own */
bit unsure[2];  /* a write of this transaction was unanswered */
byte id[2];     /* the id in use; the ones below belong to dead incarnations or are retired */
bit lateInit[NX]; /* an InitProducerId that may still arrive, whatever the epoch by then */

bit passed[NX];   /* FENCE_EMPTY = 0: an old id that was seen Empty */

byte crashes, timeouts;

hidden byte i;

/* The clusters from FAULTY on answer everything. There, steps whose order nothing can tell apart
 * are one step: the branch is prepared once its sibling has voted, and resolved in one go. */
#define Lossy(c) ((c) < FAULTY)
#define Lane(c) X(c, id[c])
#define LiveLane(n, c) (Lane(c) == P(n, c) && lane[c] >= OPEN && cur[c] == n)
#define MayEnd(n) (dec[n] == DURABLE || (!SYNC_FIRST && dec[n] == BUFFERED))

#define PendingOf(n, c, x)                                                               \
  ((dec[n] == DURABLE || (M2_PENDING && dec[n] == BUFFERED)) && P(n, c) == (x) &&        \
   (M1 -> comp[T(n, c)] != DURABLE : comp[T(n, c)] == ABSENT))
#define Pending(c, x) Any(PendingOf, c, x)
#define MayInit(c, x) (!Pending(c, x) || !RECOVER_FIRST)

/* An old id on which nothing is open, pending or late has no story left: its fields are set to
 * zero, so that equal futures are one state. */
#define Unfenced(x) (bs[x] == ONGOING || lateWrite[x] != 0)
#define KeepsIt(n, c, x)                                                                 \
  ((dec[n] == DURABLE || dec[n] == BUFFERED) && P(n, c) == (x) && comp[T(n, c)] != DURABLE)
inline tidy(c, x) {
  if
  :: (x) < Lane(c) && !Unfenced(x) && !Any(KeepsIt, c, x) ->
     bump(x);
     bs[x] = EMPTY;
     be[x] = 0;
     bt[x] = 0;
     lateInit[x] = 0
  :: else
  fi
}
#if IDS == 1
#define tidyAll() skip
#elif IDS == 2
#define tidyAll() tidy(0, X(0, 0)); tidy(1, X(1, 0))
#elif IDS == 3
#define tidyAll() tidy(0, X(0, 0)); tidy(0, X(0, 1)); tidy(1, X(1, 0)); tidy(1, X(1, 1))
#else
#define tidyAll()                                                                        \
  tidy(0, X(0, 0)); tidy(0, X(0, 1)); tidy(0, X(0, 2));                                  \
  tidy(1, X(1, 0)); tidy(1, X(1, 1)); tidy(1, X(1, 2))
#endif

/* Completion of a participant is known: it goes to the log without a sync of its own. */
inline complete(n, c, what) {
  comp[T(n, c)] = BUFFERED;
  outcome[T(n, c)] = what;
  armed[T(n, c)] = 0;
  CHECK(wrong_outcome, fate[T(n, c)] == what)
}

inline completeDurably(p) {
  comp[p] = DURABLE;
  pId[p] = 0;
  pEpoch[p] = 0;
  pStart[p] = 0
}

/* The lane is done with its transaction. */
inline leave(c, to) {
  lane[c] = to;
  cur[c] = 0;
  unclean[c] = 0;
  unsure[c] = 0;
  laneEpoch[c] = (to == READY -> laneEpoch[c] : 0)
}

/* Back to the pool, or a new producer on the same id. */
inline release(c) {
  if
  :: lane[c] == ENDED &&
     (dec[cur[c]] == ABSENT || comp[T(cur[c], c)] >= (CLEAN_A -> DURABLE : BUFFERED)) ->
     if
     :: !unclean[c] && (!unsure[c] || !M3) ->
        printf("lane %d: clean after txn %d\n", c, cur[c]);
        leave(c, READY)
     :: else ->
        printf("lane %d: retired after txn %d\n", c, cur[c]);
        leave(c, DOWN)
     fi
  :: lane[c] == VOTED && comp[T(cur[c], c)] == DURABLE ->
     printf("lane %d: retired after txn %d\n", c, cur[c]);
     leave(c, DOWN)
  :: else
  fi
}

/* The lane's producer is gone. Undecided, its transaction is aborted first, by compare-and-set. */
inline loseLane(c) {
  if
  :: lane[c] >= OPEN && dec[cur[c]] == ABSENT && ts[cur[c]] == ACTIVE &&
     (lane[c] != VOTED || M2_ABORT) ->
     ts[cur[c]] = GONE
  :: else
  fi;
  leave(c, DOWN)
}

/* ---- lanes ---- */

/* Until it is answered: the first call may only have aborted what was open. */
inline initFully(x) {
  initProducerId(x);
  if
  :: ans == CONCURRENT -> initProducerId(x)
  :: else
  fi
}

#define CanInit(c) (lane[c] == DOWN && MayInit(c, Lane(c)))

inline initLane(c) {
  initFully(Lane(c));
  lane[c] = READY;
  laneEpoch[c] = be[Lane(c)];
  printf("lane %d: InitProducerId(id %d), epoch now %d\n", c, id[c], be[Lane(c)])
}

inline Init(c) {
  d_step { CanInit(c) && (Lossy(c) || Unfenced(Lane(c))) -> initLane(c) }
}

/* No answer. `lands`: it took effect; otherwise it may land later. */
#define CanLoseInit(c)                                                                   \
  (INIT_RETIRES -> id[c] + (CRASHES - crashes) * M20 < IDS - 1 : SPARE > 0 && be[Lane(c)] < 5)
inline InitUnanswered(c, lands) {
  d_step {
    Lossy(c) && CanInit(c) && CanLoseInit(c) ->
    if
    :: lands -> initProducerId(Lane(c))
    :: else -> lateInit[Lane(c)] = 1
    fi;
    printf("lane %d: InitProducerId(id %d) unanswered, landed %d\n", c, id[c], lands);
    if
    :: INIT_RETIRES -> id[c]++
    :: else
    fi
  }
}

/* The transaction that a ready lane takes next. */
#define Next(n, c)                                                                       \
  (ts[n] == ACTIVE && vote[T(n, c)] == NOT_TAKEN &&                                      \
   (n == 0 || ts[(n) - 1] != ACTIVE || vote[T((n) - 1, c)] != NOT_TAKEN))
#define CanWrite(n, c)                                                                   \
  ((lane[c] == READY && Next(n, c)) || (lane[c] == OPEN && cur[c] == n && ts[n] == ACTIVE))

inline take(n, c) {
  if
  :: lane[c] == READY ->
     printf("lane %d: begins txn %d under epoch %d\n", c, n, laneEpoch[c]);
     lane[c] = OPEN;
     cur[c] = n;
     vote[T(n, c)] = TAKEN
  :: else
  fi
}

inline Write(n, c) {
  d_step {
    Lossy(c) && CanWrite(n, c) ->
    take(n, c);
    write(Lane(c), laneEpoch[c], n, n + 1);
    printf("lane %d: writes of txn %d, answer %d\n", c, n, ans);
    if
    :: ans == NONE -> lane[c] = WRITTEN
    :: else -> loseLane(c)
    fi
  }
}

inline WriteUnanswered(n, c, lands) {
  d_step {
    Lossy(c) && CanWrite(n, c) ->
    take(n, c);
    printf("lane %d: a write of txn %d unanswered, landed %d\n", c, n, lands);
    if
    :: lands -> write(Lane(c), laneEpoch[c], n, n + 1)
    :: !lands && laneEpoch[c] == be[Lane(c)] ->
       lateWrite[Lane(c)] = lateWrite[Lane(c)] | (1 << n)
    :: else
    fi;
    unsure[c] = 1
  }
}

/* DescribeTransactions: the broker's word decides the vote. */
inline castVote(c) {
  if
  :: bs[Lane(c)] == ONGOING && be[Lane(c)] == laneEpoch[c] && (!VOTE_CLEAN || !unsure[c]) ->
     lane[c] = VOTED;
     vote[T(cur[c], c)] = YES;
     pId[T(cur[c], c)] = Lane(c);
     pEpoch[T(cur[c], c)] = laneEpoch[c];
     pStart[T(cur[c], c)] = bt[Lane(c)];
     printf("lane %d: votes YES for txn %d\n", c, cur[c])
  :: else ->
     printf("lane %d: votes NO for txn %d\n", c, cur[c]);
     loseLane(c)
  fi
}

inline Vote(c) {
  d_step { lane[c] == WRITTEN && ts[cur[c]] == ACTIVE -> castVote(c) }
}

inline Prepare(n, c) {
  d_step {
    !Lossy(c) && vote[T(n, 0)] == YES && Next(n, c) && (lane[c] == READY || CanInit(c)) ->
    if
    :: lane[c] == DOWN -> initLane(c)
    :: else
    fi;
    take(n, c);
    write(Lane(c), laneEpoch[c], n, n + 1);
    lane[c] = WRITTEN;
    castVote(c)
  }
}

/* A fatal error, at any time. */
inline LaneDies(c) {
  d_step {
    Lossy(c) && lane[c] >= OPEN && lane[c] != ENDED ->
    printf("lane %d: fatal error, destroyed\n", c);
    loseLane(c)
  }
}

/* librdkafka's abort_transaction. M17 = 0: called although the transaction is decided. */
#define MayAbort(c)                                                                      \
  ((lane[c] == WRITTEN || lane[c] == VOTED) &&                                           \
   (ts[cur[c]] == GONE || (!M17 && Lossy(c) && dec[cur[c]] == DURABLE)))
inline LaneAbort(c) {
  d_step {
    MayAbort(c) ->
    endTxn(Lane(c), laneEpoch[c], 0, 0);
    printf("lane %d: abort_transaction of txn %d, answer %d\n", c, cur[c], ans);
    if
    :: ans == NONE -> lane[c] = ENDED; release(c)
    :: else -> loseLane(c)
    fi
  }
}

inline LaneAbortUnanswered(c, lands) {
  d_step {
    Lossy(c) && MayAbort(c) ->
    printf("lane %d: EndTxn(abort) of txn %d unanswered, landed %d\n", c, cur[c], lands);
    if
    :: lands -> endTxn(Lane(c), laneEpoch[c], 0, 0)
    :: !lands && laneEpoch[c] == be[Lane(c)] -> lateAbort[Lane(c)] = 1
    :: else
    fi;
    unclean[c] = unclean[c] | CLEAN_B
  }
}

/* librdkafka has nothing to end. */
inline LaneGivesUp(c) {
  d_step {
    lane[c] == OPEN && ts[cur[c]] == GONE ->
    printf("lane %d: gives up txn %d\n", c, cur[c]);
    leave(c, DOWN)
  }
}

/* librdkafka's commit_transaction. */
inline LaneCommit(c) {
  d_step {
    lane[c] == VOTED && MayEnd(cur[c]) ->
    endTxn(Lane(c), laneEpoch[c], 0, 1);
    printf("lane %d: commit_transaction of txn %d, answer %d\n", c, cur[c], ans);
    if
    :: (ans == NONE || !ERROR_IS_NO_OUTCOME) && comp[T(cur[c], c)] == ABSENT ->
       complete(cur[c], c, COMMITTED)
    :: else
    fi;
    if
    :: ans == NONE -> lane[c] = ENDED; release(c)
    :: else -> loseLane(c)
    fi
  }
}

inline LaneCommitUnanswered(c, lands) {
  d_step {
    Lossy(c) && lane[c] == VOTED && MayEnd(cur[c]) ->
    printf("lane %d: EndTxn(commit) of txn %d unanswered, landed %d\n", c, cur[c], lands);
    if
    :: lands -> endTxn(Lane(c), laneEpoch[c], 0, 1)
    :: !lands && laneEpoch[c] == be[Lane(c)] -> lateCommit[Lane(c)] = 1
    :: else
    fi;
    unclean[c] = unclean[c] | CLEAN_B
  }
}

/* ---- the decision ---- */

inline Decide(n) {
  d_step {
    dec[n] == ABSENT && (ts[n] == ACTIVE || (!CAS && ts[n] == GONE)) &&
    vote[T(n, 0)] == YES && (vote[T(n, 1)] == YES || !ALL_VOTES) ->
    dec[n] = BUFFERED;
    ts[n] = (ts[n] == ACTIVE -> COMMITTING : ts[n]);
    if
    :: vote[T(n, 1)] != YES -> pId[T(n, 1)] = Lane(1)
    :: else
    fi;
    vote[T(n, 0)] = TAKEN;
    vote[T(n, 1)] = (vote[T(n, 1)] == YES -> TAKEN : vote[T(n, 1)]);
    printf("txn %d: COMMIT written to the log\n", n);
    answered[n] = !ANSWER_SYNCED
  }
}

/* The client's own Abort, or expiry; it is told ABORTED at once. */
inline Abort(n) {
  d_step {
    ts[n] == ACTIVE && dec[n] == ABSENT &&
    (vote[T(n, 0)] != NOT_TAKEN || vote[T(n, 1)] != NOT_TAKEN) ->
    ts[n] = GONE;
    printf("txn %d: ABORTED\n", n)
  }
}

#define UnsyncedOf(n, c, x)                                                              \
  (dec[n] == BUFFERED || comp[T(n, 0)] == BUFFERED || comp[T(n, 1)] == BUFFERED)

/* One sync covers all that was written before it. A client that asked for DECIDED is answered. */
inline Sync() {
  d_step {
    Any(UnsyncedOf, 0, 0) ->
    printf("log: sync\n");
    for (i : 0 .. TXNS - 1) {
      if
      :: dec[i] == BUFFERED ->
         dec[i] = DURABLE;
         decided[i] = 1;
         answered[i] = 1;
         CHECK(abort_answer_broken, ts[i] != GONE);
         CHECK(torn, !(fate[T(i, 0)] & ABORTED) || expired[T(i, 0)]);
         CHECK(torn, !(fate[T(i, 1)] & ABORTED) || expired[T(i, 1)])
      :: else
      fi
    }
    for (i : 0 .. TXNS * 2 - 1) {
      if
      :: comp[i] == BUFFERED -> completeDurably(i)
      :: else
      fi
    }
    i = 0;
    release(0);
    release(1);
    tidyAll()
  }
}

/* ---- the resolver: Describe, judge, EndTxn, Describe again ---- */

#define Named(n, c, e)                                                                   \
  (be[P(n, c)] == (e) && (!M6 || bt[P(n, c)] == pStart[T(n, c)]))
#define SawOngoing(n, c) (bs[P(n, c)] == ONGOING && Named(n, c, pEpoch[T(n, c)]))
#define SawCommit(n, c) (CommitState(P(n, c)) && Named(n, c, pEpoch[T(n, c)]))
#define SawAbort(n, c)                                                                   \
  (AbortState(P(n, c)) &&                                                                \
   (Named(n, c, pEpoch[T(n, c)]) || Named(n, c, pEpoch[T(n, c)] + 1)))

/* What proves nothing changes nothing: the resolver asks again later. */
inline Describe(n, c) {
  d_step {
    Lossy(c) && MayEnd(n) && comp[T(n, c)] == ABSENT && !armed[T(n, c)] &&
    (SawOngoing(n, c) || SawCommit(n, c) || SawAbort(n, c)) ->
    if
    :: SawOngoing(n, c) ->
       printf("txn %d: Describe(cluster %d) shows it Ongoing\n", n, c);
       armed[T(n, c)] = 1
    :: SawCommit(n, c) ->
       printf("txn %d: Describe(cluster %d) shows it committed\n", n, c);
       complete(n, c, COMMITTED)
    :: else ->
       printf("txn %d: Describe(cluster %d) shows it aborted: HEURISTIC\n", n, c);
       complete(n, c, ABORTED)
    fi
  }
}

/* The first marker of our producer behind our records tells what became of them. */
inline ReadMarkers(n, c) {
  d_step {
    EVIDENCE && Lossy(c) && MayEnd(n) && comp[T(n, c)] == ABSENT && !armed[T(n, c)] &&
    !SawOngoing(n, c) && !SawCommit(n, c) && !SawAbort(n, c) && fate[T(n, c)] != 0 ->
    printf("txn %d: the markers on cluster %d show outcome %d\n", n, c, fate[T(n, c)]);
    complete(n, c, (fate[T(n, c)] & COMMITTED -> COMMITTED : ABORTED))
  }
}

/* The answer is not looked at. late: nothing happened yet. */
inline WireEndTxn(n, c, late) {
  d_step {
    armed[T(n, c)] ->
    armed[T(n, c)] = 0;
    ans = CONCURRENT;
    if
    :: late && pEpoch[T(n, c)] == be[P(n, c)] ->
       lateCommit[P(n, c)] = lateCommit[P(n, c)] | (ONE_VERSION -> 1 : 2)
    :: late && pEpoch[T(n, c)] != be[P(n, c)]
    :: else -> endTxn(P(n, c), pEpoch[T(n, c)], !ONE_VERSION, 1)
    fi;
    printf("txn %d: wire EndTxn(commit) to cluster %d, late %d, answer %d\n", n, c, late, ans);
    if
    :: M4 && LiveLane(n, c) -> unclean[c] = 1
    :: else
    fi;
    if
    :: !ERROR_IS_NO_OUTCOME && (ans == FENCED || ans == INVALID_TXN_STATE) &&
       comp[T(n, c)] == ABSENT ->
       complete(n, c, COMMITTED)
    :: else
    fi
  }
}

inline Resolve(n, c) {
  d_step {
    !Lossy(c) && MayEnd(n) && comp[T(n, c)] == ABSENT && !LiveLane(n, c) &&
    (SawOngoing(n, c) || SawCommit(n, c)) ->
    if
    :: SawOngoing(n, c) -> endTxn(P(n, c), pEpoch[T(n, c)], 0, 1)
    :: else
    fi;
    printf("txn %d: resolved on cluster %d: committed\n", n, c);
    complete(n, c, COMMITTED)
  }
}

/* M8 = 0: an operator ends a participant with an EndTxn of his own. */
inline OperatorEnds(c, commit) {
  d_step {
    !M8 && lane[c] >= WRITTEN && lane[c] != ENDED && bs[Lane(c)] == ONGOING ->
    printf("operator: EndTxn(commit %d) to id %d of cluster %d\n", commit, id[c], c);
    endTxn(Lane(c), be[Lane(c)], 0, commit)
  }
}

/* FORGET_LAST = 0: one acknowledgement is taken for all. */
inline ForgetEarly(n) {
  d_step {
    !FORGET_LAST && dec[n] == DURABLE && (comp[T(n, 0)] == DURABLE || comp[T(n, 1)] == DURABLE) ->
    printf("txn %d: forgotten\n", n);
    dec[n] = FORGOTTEN;
    armed[T(n, 0)] = 0;
    armed[T(n, 1)] = 0
  }
}

/* ---- recovery ---- */

/* An id of a dead incarnation, or a retired one, with no decision pending on it: whatever is open
 * there is aborted. (Where nothing is open or may open, the step shows nothing and is left out,
 * unless M1 is.) */
#define CanFence(c, x)                                                                   \
  ((x) < Lane(c) && MayInit(c, x) && (Unfenced(x) || (!M1 && bs[x] != EMPTY)) &&         \
   !passed[x])
inline Fence(c, x) {
  d_step {
    CanFence(c, x) ->
    initFully(x);
    printf("recovery: InitProducerId(cluster %d, old id %d)\n", c, (x) % IDS);
    tidy(c, x)
  }
}

/* FENCE_EMPTY = 0: nothing is open there, so it is not looked at again. */
inline PassOver(c, x) {
  d_step {
    !FENCE_EMPTY && CanFence(c, x) && bs[x] == EMPTY ->
    printf("recovery: cluster %d, old id %d is Empty\n", c, (x) % IDS);
    passed[x] = 1
  }
}

inline FenceUnanswered(c, x, lands) {
  d_step {
    Lossy(c) && CanFence(c, x) && (lands -> bs[x] == ONGOING : !lateInit[x]) ->
    printf("recovery: InitProducerId(cluster %d, old id %d) unanswered, landed %d\n", c,
           (x) % IDS, lands);
    if
    :: lands -> initProducerId(x)
    :: else -> lateInit[x] = 1
    fi
  }
}

/* kill -9 and restart. Of what was not synced, any part may be there afterwards. */
inline Crash() {
  atomic {
    crashes < CRASHES ->
    crashes++;
    printf("coordinator: kill -9, restarts\n");
    id[0] = (M20 -> id[0] + 1 : 0);
    id[1] = (M20 -> id[1] + 1 : 0);
    leave(0, DOWN);
    leave(1, DOWN);
    for (i : 0 .. NX - 1) {
      passed[i] = 0
    }
    for (i : 0 .. TXNS * 2 - 1) {
      armed[i] = 0;
      vote[i] = (vote[i] != NOT_TAKEN -> TAKEN : NOT_TAKEN);
      if
      :: comp[i] == BUFFERED -> comp[i] = ABSENT; outcome[i] = 0
      :: comp[i] == BUFFERED -> completeDurably(i)
      :: else
      fi
    }
    for (i : 0 .. TXNS - 1) {
      if
      :: dec[i] == BUFFERED ->
         printf("log: the decision of txn %d is lost\n", i);
         CHECK(answer_lost, !answered[i]);
         dec[i] = ABSENT
      :: dec[i] == BUFFERED -> dec[i] = DURABLE; decided[i] = 1; answered[i] = 1
      :: else
      fi;
      if
      :: dec[i] == DURABLE -> ts[i] = COMMITTING
      :: dec[i] != DURABLE && (vote[T(i, 0)] != NOT_TAKEN || vote[T(i, 1)] != NOT_TAKEN) ->
         ts[i] = GONE
      :: else
      fi;
      if
      :: dec[i] == ABSENT ->
         pId[T(i, 0)] = 0; pEpoch[T(i, 0)] = 0; pStart[T(i, 0)] = 0; comp[T(i, 0)] = ABSENT;
         pId[T(i, 1)] = 0; pEpoch[T(i, 1)] = 0; pStart[T(i, 1)] = 0; comp[T(i, 1)] = ABSENT
      :: else
      fi
    }
    i = 0;
    tidyAll()
  }
}

/* ---- the environment of one id ---- */

inline expire(n, x) {
  if
  :: bc[x] & (1 << n) -> expired[T(n, ClusterOf(x))] = 1
  :: else
  fi
}

inline Timeout(c, x) {
  d_step {
    Lossy(c) && timeouts < TIMEOUTS && bs[x] == ONGOING ->
    timeouts++;
    printf("cluster %d: id %d times out\n", c, (x) % IDS);
    expire(0, x);
    expire(1, x);
    expire(TXNS - 1, x);
    bump(x);
    decideAbort(x)
  }
}

inline LateCommit(c, x) {
  d_step {
    lateCommit[x] && bs[x] == ONGOING ->
    printf("cluster %d: a late EndTxn(commit) lands on id %d\n", c, (x) % IDS);
    endTxn(x, be[x], (lateCommit[x] == 2), 1)
  }
}

inline LateAbort(c, x) {
  d_step {
    lateAbort[x] && bs[x] == ONGOING ->
    printf("cluster %d: a late EndTxn(abort) lands on id %d\n", c, (x) % IDS);
    endTxn(x, be[x], 0, 0)
  }
}

/* A start time that nobody has seen yet. */
inline freshStart(c, x) {
  i = LATE;
  do
  :: i == bt[x] || i == pStart[T(0, c)] || i == pStart[T(1, c)] ||
     i == pStart[T(TXNS - 1, c)] -> i--
  :: else -> break
  od;
  bt[x] = i;
  i = 0
}

/* A late AddPartitions opens a transaction with nothing in it; a late Produce or TxnOffsetCommit
 * joins what is open. */
inline LateWrite(n, c, x) {
  d_step {
    (lateWrite[x] & (1 << n)) && (bs[x] != ONGOING || !(bc[x] & (1 << n))) ->
    printf("cluster %d: a late write of txn %d lands on id %d\n", c, n, (x) % IDS);
    if
    :: bs[x] == ONGOING -> bc[x] = bc[x] | (1 << n)
    :: else -> bs[x] = ONGOING; freshStart(c, x); bc[x] = 0
    fi
  }
}

inline LateInit(c, x) {
  d_step {
    lateInit[x] ->
    printf("cluster %d: a late InitProducerId lands on id %d\n", c, (x) % IDS);
    lateInit[x] = 0;
    initProducerId(x)
  }
}

/* Left alone, the coordinator has nothing to do any more: nothing may be in doubt, torn and not
 * reported, or open. */
inline AtRest() {
  d_step {
    else ->
    for (i : 0 .. TXNS * 2 - 1) {
      CHECK(torn, !decided[i / 2] || (fate[i] & COMMITTED) || outcome[i] == ABORTED);
      CHECK(in_doubt, dec[i / 2] == ABSENT || dec[i / 2] == FORGOTTEN || comp[i] == DURABLE);
      CHECK(undecided_committed, decided[i / 2] || !(fate[i] & COMMITTED))
    }
    for (i : 0 .. NX - 1) {
      CHECK(left_open, bs[i] != ONGOING)
    }
    i = 0
  }
}

#if TXNS > 2
#define Txns(S, c) S(0, c) S(1, c) S(2, c)
#else
#define Txns(S, c) S(0, c) S(1, c)
#endif
#if IDS == 1
#define Ids(S, c) S(c, X(c, 0))
#elif IDS == 2
#define Ids(S, c) S(c, X(c, 0)) S(c, X(c, 1))
#elif IDS == 3
#define Ids(S, c) S(c, X(c, 0)) S(c, X(c, 1)) S(c, X(c, 2))
#else
#define Ids(S, c) S(c, X(c, 0)) S(c, X(c, 1)) S(c, X(c, 2)) S(c, X(c, 3))
#endif

/* What the coordinator does when everything answers. */
#define DecisionSteps(n, c) :: Decide(n) :: Abort(n)
#define BranchSteps(n, c)                                                                \
  :: Write(n, c) :: Prepare(n, c) :: Describe(n, c) :: ReadMarkers(n, c)                 \
  :: WireEndTxn(n, c, 0) :: Resolve(n, c)
#define IdSteps(c, x) :: Fence(c, x) :: PassOver(c, x)
#define ClusterSteps(c)                                                                  \
  :: Init(c) :: Vote(c) :: LaneGivesUp(c) :: LaneAbort(c) :: LaneCommit(c)               \
  Txns(BranchSteps, c) Ids(IdSteps, c)

proctype coordinator() {
  do
  ClusterSteps(0)
  ClusterSteps(1)
  Txns(DecisionSteps, 0)
  :: Sync()
  :: AtRest()
  od
}

/* What the network, the brokers, operators and kill -9 do to it. */
#define BranchFaults(n, c)                                                               \
  :: WriteUnanswered(n, c, 0) :: WriteUnanswered(n, c, 1) :: WireEndTxn(n, c, 1)         \
  :: ForgetEarly(n)
#define IdFaults(c, x)                                                                   \
  :: FenceUnanswered(c, x, 0) :: FenceUnanswered(c, x, 1) :: Timeout(c, x)               \
  :: LateCommit(c, x) :: LateAbort(c, x) :: LateInit(c, x)                               \
  :: LateWrite(0, c, x) :: LateWrite(1, c, x) :: LateWrite(TXNS - 1, c, x)
#define ClusterFaults(c)                                                                 \
  :: InitUnanswered(c, 0) :: InitUnanswered(c, 1) :: LaneDies(c)                         \
  :: LaneAbortUnanswered(c, 0) :: LaneAbortUnanswered(c, 1)                              \
  :: LaneCommitUnanswered(c, 0) :: LaneCommitUnanswered(c, 1)                            \
  :: OperatorEnds(c, 0) :: OperatorEnds(c, 1)                                            \
  Txns(BranchFaults, c) Ids(IdFaults, c)

proctype environment() {
  do
  ClusterFaults(0)
  ClusterFaults(1)
  :: Crash()
  od
}

init {
  atomic {
    LoadSettings();
    run coordinator();
    run environment()
  }
}
