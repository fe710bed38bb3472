/*
 * Enlisted participants: the client's own producer writes and Lockstep ends. One transactional.id
 * on one cluster, a client and its successor (each may live on as a zombie), a coordinator that
 * crashes. What the other clusters do is one bit: they commit what was decided.
 *
 * docs/design/model.md says what is covered, within which bounds, and what every switch shows.
 */

/* ---- bounds ---- */
#ifndef TXNS
#define TXNS 3 /* global transactions, in the order in which they are enlisted */
#endif
hidden byte TV = 1;          /* the protocol of the client and of the cluster: 1 or 2 */
hidden byte CRASHES = 1;     /* of the coordinator */
hidden byte TIMEOUTS = 1;    /* transactions that the broker's timeout aborts */
hidden byte INITS = 3;       /* producers that clients make, both together */
hidden byte ROLL = 3;        /* epochs of one producer id before it rolls over */
hidden byte LATE_WRITES = 0; /* 1: a client's own writes may arrive late (TV1) */
hidden byte LATE_INIT = 1;   /* 0: no client calls initTransactions() once another one registered */
hidden byte EXCUSE = 1;      /* 0: what such a call aborts counts as torn, too */

/* ---- rules: 0 leaves one out ---- */
hidden byte M6 = 1; /* the start time is part of a v0-4 transaction's name */
hidden byte M9 = 1; /* Enlist comes before the first write and binds the epoch */
hidden byte VOTE_EPOCH = 1; /* only Ongoing under the bound epoch is YES */
hidden byte M10 = 1; /* one unfinished global transaction per id */
hidden byte M11 = 1; /* COMPLETE and RegisterProducer wait for durable completion */
hidden byte ENLIST_WAITS = 0; /* 1: Enlist waits for it: the checked alternative to M11 and M12 */
hidden byte M12 = 1; /* DECIDED is refused */
hidden byte M13_ANSWER = 1; /* ABORTED after an uncertain abort says reinit_required */
hidden byte M13_ONGOING = 1; /* an abort EndTxn goes only to what Describe shows Ongoing */
hidden byte M15 = 1; /* v5: ITS with CompleteAbort is aborted, whatever the pid shown */
hidden byte M16_WAITS = 1; /* the client ends its producer only after a definite answer */
hidden byte M16_RECREATES = 1; /* TV1: after an uncertain EndTxn of its own: a new producer */
hidden byte M16_INCARNATION = 1; /* TV1: after a restart of Lockstep: a new producer */
hidden byte REINIT = 1; /* TV1: after an uncertain EndTxn of ours: a new producer */
hidden byte M21_ABORTS = 1; /* RegisterProducer aborts what is undecided on the id */
hidden byte M21_WAITS = 1; /* RegisterProducer waits for what is decided on the id */
hidden byte INFER = 0; /* v0-4: a later start under the bound name: ours was committed */

/* ---- properties: 1 leaves one unchecked ---- */
hidden byte undecided_committed; /* committed, though nobody decided so */
hidden byte twice_committed;     /* a write became visible again, or after its abort */
hidden byte torn;                /* decided, and the cluster aborted it; unless its timeout did */
hidden byte wrong_outcome;       /* an outcome as the coordinator understood it is not the truth */
hidden byte answer_lost;         /* a client knows of a decision that a crash took away */
hidden byte abort_answer_broken; /* a client was told ABORTED, and it commits */
hidden byte in_doubt;            /* at rest, the outcome is not known */
#define CHECK(name, cond) assert((cond) || name)

#define FromEnvironment                                                                  \
  SET(TV) SET(CRASHES) SET(TIMEOUTS) SET(INITS) SET(ROLL) SET(LATE_WRITES)               \
  SET(LATE_INIT) SET(EXCUSE) SET(M6) SET(M9) SET(VOTE_EPOCH) SET(M10) SET(M11)           \
  SET(ENLIST_WAITS) SET(M12) SET(M13_ANSWER) SET(M13_ONGOING) SET(M15)                   \
  SET(M16_WAITS) SET(M16_RECREATES) SET(M16_INCARNATION) SET(REINIT) SET(M21_ABORTS)     \
  SET(M21_WAITS) SET(INFER) SET(undecided_committed) SET(twice_committed) SET(torn)      \
  SET(wrong_outcome) SET(answer_lost) SET(abort_answer_broken) SET(in_doubt)

#define NX 1
#define LATE 15
#define V5 (TV == 2)

#define STRAY (1 << TXNS) /* in bc: writes that belong to no global transaction */

/* Ghosts: only checks read them. */
#define COMMITTED 1
#define ABORTED 2
byte fate[TXNS];
bit expired[TXNS];
bit decided[TXNS];
bit lost[TXNS];    /* unfinished when a client with a void registration took the id */
byte told[TXNS]; /* what the client was answered */

#define strayHere() CHECK(undecided_committed, !(bc[0] & STRAY))
inline committedHere(n) {
  if
  :: bc[0] & (1 << n) ->
     CHECK(undecided_committed, decided[n]);
     CHECK(twice_committed, fate[n] == 0);
     fate[n] = fate[n] | COMMITTED
  :: else
  fi
}
inline abortedHere(n) {
  if
  :: bc[0] & (1 << n) ->
     CHECK(torn, !decided[n] || expired[n] || (fate[n] & COMMITTED));
     fate[n] = fate[n] | ABORTED
  :: else
  fi
}
#if TXNS > 2
#define OnCommit(x) strayHere(); committedHere(0); committedHere(1); committedHere(2)
#define OnAbort(x) abortedHere(0); abortedHere(1); abortedHere(2)
#else
#define OnCommit(x) strayHere(); committedHere(0); committedHere(1)
#define OnAbort(x) abortedHere(0); abortedHere(1)
#endif
#define MARKERS 0
#include "kafka.pml"

/* ---- the log ---- */
#define ABSENT 0
#define BUFFERED 1
#define DURABLE 2
byte dec[TXNS];
byte pEpoch[TXNS], pStart[TXNS];
byte comp[TXNS];
byte outcome[TXNS];

/* ---- the coordinator's memory ---- */
#define NEW 0
#define ACTIVE 1
#define PREPARING 2
#define COMMITTING 3
#define ABORTING 4 /* no decision will be written any more; the client waits */
#define GONE 5     /* aborted, and the client may be told */
byte ts[TXNS];
bit voted[TXNS];
bit armed[TXNS];  /* Describe showed it Ongoing under its name: EndTxn is next */
bit unsure[TXNS]; /* an EndTxn of ours was not answered, or recovery sent one */
byte owner;       /* who holds the registration: client + 1; 0: none */
byte barred;      /* TV1: epoch + 1 that may not be enlisted any more (reinit_required); 0: none */

/* ---- clients ---- */
#define STOPPED 0
#define REGISTERED 1
#define IDLE 2
#define OPEN 3   /* enlisted, nothing written */
#define WRITTEN 4
#define ASKED 5  /* Commit or Abort was called; no answer yet */
#define MAY_COMMIT 6 /* answered: its own commitTransaction() is next */
#define MAY_ABORT 7
#define DEAD 8
byte client[2];
byte ctx[2];   /* its transaction */
byte cEpoch[2];
bit wrote[2];
bit zombie[2]; /* made its producer although its registration was void */
bit stale[2];  /* TV1: Lockstep restarted since it made its producer */

byte crashes, timeouts, inits;
hidden byte i;

/* Producer id and epoch are one number here; what a roll-over changes is the id that is shown. */
#define PidOf(e) ((e) / ROLL)
#define Pending(n)                                                                       \
  (dec[n] != ABSENT && (M11 || ENLIST_WAITS -> comp[n] != DURABLE : comp[n] == ABSENT))
#define Unfinished(n)                                                                    \
  (ts[n] == ACTIVE || ts[n] == PREPARING || ts[n] == ABORTING ||                         \
   (dec[n] != ABSENT && (comp[n] == ABSENT || (ENLIST_WAITS && comp[n] == BUFFERED))))
#define AnyPending (Pending(0) || Pending(1) || Pending(TXNS - 1))
#define AnyUnfinished (Unfinished(0) || Unfinished(1) || Unfinished(TXNS - 1))

inline initFully(x) {
  initProducerId(x);
  if
  :: ans == CONCURRENT -> initProducerId(x)
  :: else
  fi
}

/* The client's producer is no use any more. Its successor in the id may be another client. */
inline stop(k) {
  client[k] = (owner == (k) + 1 || owner == 0 -> STOPPED : DEAD);
  ctx[k] = 0;
  cEpoch[k] = 0;
  wrote[k] = 0;
  stale[k] = 0;
  zombie[k] = 0
}

inline abortUndecided(n) {
  if
  :: dec[n] == ABSENT && (ts[n] == ACTIVE || ts[n] == PREPARING) ->
     ts[n] = ABORTING;
     voted[n] = 0;
     printf("txn %d: aborted by compare-and-set\n", n)
  :: else
  fi
}

inline expire(n) {
  if
  :: bc[0] & (1 << n) -> expired[n] = 1
  :: else
  fi
}
inline lose(n) {
  lost[n] = lost[n] | (ts[n] != NEW && ts[n] != GONE && comp[n] != DURABLE)
}
inline loseAll() {
  lose(0);
  lose(1);
  lose(TXNS - 1)
}
inline expireAll() {
  expire(0);
  expire(1);
  expire(TXNS - 1)
}

/* ---- what a client does ---- */

/* Once per producer, before initTransactions(). */
inline Register(k) {
  d_step {
    client[k] == STOPPED && inits < INITS && (!AnyPending || !M21_WAITS) ->
    inits++;
    if
    :: M21_ABORTS -> abortUndecided(0); abortUndecided(1); abortUndecided(TXNS - 1)
    :: else
    fi;
    owner = (k) + 1;
    client[k] = REGISTERED;
    printf("client %d: RegisterProducer\n", k)
  }
}

inline InitTransactions(k) {
  d_step {
    client[k] == REGISTERED && (owner == (k) + 1 || LATE_INIT) ->
    if
    :: owner != (k) + 1 && EXCUSE -> loseAll(); expireAll()
    :: else
    fi;
    initFully(0);
    cEpoch[k] = be[0];
    client[k] = IDLE;
    zombie[k] = (owner != (k) + 1);
    barred = 0;
    printf("client %d: initTransactions, epoch %d\n", k, be[0])
  }
}

#define MustRecreate(k) (TV == 1 && M16_INCARNATION && stale[k])
inline Recreate(k) {
  d_step {
    (client[k] == IDLE || client[k] == REGISTERED) &&
      (MustRecreate(k) || (client[k] == IDLE && barred == cEpoch[k] + 1) ||
       owner != (k) + 1) ->
    printf("client %d: closes its producer\n", k);
    stop(k)
  }
}

#define MayEnlist(n, k)                                                                  \
  (client[k] == IDLE && ts[n] == NEW && (n == 0 || ts[(n) - 1] != NEW) &&                \
   owner == (k) + 1 && !MustRecreate(k) && (!AnyUnfinished || !M10) &&                   \
   (barred != cEpoch[k] + 1 || !REINIT))
inline Enlist(n, k) {
  d_step {
    MayEnlist(n, k) ->
    ts[n] = ACTIVE;
    pEpoch[n] = cEpoch[k];
    client[k] = OPEN;
    ctx[k] = n;
    printf("client %d: enlists txn %d under epoch %d\n", k, n, cEpoch[k])
  }
}

/* M10 = 0: the application begins another one on the producer that it has: it gives the first up
 * without ending it. */
inline Overlap(n, k) {
  d_step {
    !M10 && client[k] == ASKED && ts[n] == NEW && (n == 0 || ts[(n) - 1] != NEW) &&
      owner == (k) + 1 ->
    ts[n] = ACTIVE;
    pEpoch[n] = cEpoch[k];
    client[k] = OPEN;
    ctx[k] = n;
    wrote[k] = 0;
    printf("client %d: enlists txn %d as well, under epoch %d\n", k, n, cEpoch[k])
  }
}

inline Write(k) {
  d_step {
    client[k] == OPEN ->
    write(0, cEpoch[k], ctx[k], ctx[k] + 1);
    printf("client %d: writes of txn %d, answer %d\n", k, ctx[k], ans);
    if
    :: ans == NONE -> client[k] = WRITTEN; wrote[k] = 1
    :: else -> stop(k)
    fi
  }
}

/* A client that came too late to its initTransactions() writes half a transaction. */
inline StrayWrite(k) {
  d_step {
    client[k] == IDLE && zombie[k] && cEpoch[k] == be[0] && !(bc[0] & STRAY) ->
    printf("client %d: writes, though its registration is void\n", k);
    write(0, cEpoch[k], TXNS, LATE)
  }
}

inline WriteUnanswered(k) {
  d_step {
    LATE_WRITES && TV == 1 && client[k] == OPEN && cEpoch[k] == be[0] ->
    lateWrite[0] = lateWrite[0] | (1 << ctx[k]);
    printf("client %d: a write of txn %d is late\n", k, ctx[k])
  }
}

inline AskCommit(k) {
  d_step {
    client[k] == WRITTEN ->
    printf("client %d: Commit(txn %d)\n", k, ctx[k]);
    client[k] = ASKED;
    if
    :: ts[ctx[k]] == ACTIVE && (owner == (k) + 1 || !M21_ABORTS) -> ts[ctx[k]] = PREPARING
    :: else
    fi
  }
}

inline AskAbort(k) {
  d_step {
    client[k] == OPEN || client[k] == WRITTEN ->
    printf("client %d: Abort(txn %d)\n", k, ctx[k]);
    client[k] = ASKED;
    abortUndecided(ctx[k])
  }
}

/* Commit's answer. A lost one is asked for again. */
#define CommitAnswer(n)                                                                  \
  ((dec[n] == DURABLE && !M12) || comp[n] == DURABLE || (!M11 && comp[n] == BUFFERED))
inline Answer(k) {
  d_step {
    client[k] == ASKED && (CommitAnswer(ctx[k]) || ts[ctx[k]] == GONE) ->
    if
    :: CommitAnswer(ctx[k]) && outcome[ctx[k]] != ABORTED ->
       printf("client %d: txn %d is COMMITTED\n", k, ctx[k]);
       told[ctx[k]] = COMMITTED;
       client[k] = MAY_COMMIT
    :: CommitAnswer(ctx[k]) && outcome[ctx[k]] == ABORTED ->
       printf("client %d: txn %d is HEURISTIC\n", k, ctx[k]);
       stop(k)
    :: else ->
       printf("client %d: txn %d is ABORTED, reinit_required %d\n", k, ctx[k],
              unsure[ctx[k]] && M13_ANSWER);
       told[ctx[k]] = ABORTED;
       if
       :: unsure[ctx[k]] && M13_ANSWER -> stop(k)
       :: else -> client[k] = MAY_ABORT
       fi
    fi
  }
}

/* Its own commitTransaction() or abortTransaction(): a retry of what Lockstep has done. */
inline endOwn(k, commit) {
  if
  :: wrote[k] -> endTxn(0, cEpoch[k], V5, commit)
  :: else -> ans = NONE
  fi;
  printf("client %d: EndTxn(commit %d) of its own, answer %d\n", k, commit, ans);
  if
  :: ans == NONE && TV == 2 && wrote[k] -> cEpoch[k] = be[0]
  :: else
  fi;
  if
  :: ans == NONE -> client[k] = IDLE; ctx[k] = 0; wrote[k] = 0
  :: else -> stop(k)
  fi
}
inline EndOwn(k) {
  d_step {
    client[k] == MAY_COMMIT || client[k] == MAY_ABORT ->
    if
    :: client[k] == MAY_COMMIT -> endOwn(k, 1)
    :: else -> endOwn(k, 0)
    fi
  }
}

/* Not answered; it may land later. TV1: a careful client closes this producer. */
inline EndOwnUnanswered(k) {
  d_step {
    (client[k] == MAY_COMMIT || client[k] == MAY_ABORT) && wrote[k] ->
    printf("client %d: EndTxn of its own is late\n", k);
    if
    :: cEpoch[k] == be[0] && client[k] == MAY_COMMIT -> lateCommit[0] = TV
    :: cEpoch[k] == be[0] && client[k] == MAY_ABORT -> lateAbort[0] = TV
    :: else
    fi;
    if
    :: TV == 1 && M16_RECREATES -> stop(k)
    :: else
    fi
  }
}

/* M16_WAITS = 0: it loses patience and aborts. */
inline Impatient(k) {
  d_step {
    !M16_WAITS && client[k] == ASKED && wrote[k] -> endOwn(k, 0)
  }
}

inline ClientDies(k) {
  d_step {
    client[k] != STOPPED && client[k] != DEAD && k == 0 ->
    printf("client %d: dies\n", k);
    stop(k);
    client[k] = DEAD
  }
}

/* ---- the coordinator ---- */

inline complete(n, what) {
  comp[n] = BUFFERED;
  outcome[n] = what;
  armed[n] = 0;
  if
  :: unsure[n] && TV == 1 && REINIT && pEpoch[n] == be[0] -> barred = pEpoch[n] + 1
  :: else
  fi;
  CHECK(wrong_outcome, fate[n] & what)
}

#define Bound(n) (!VOTE_EPOCH || be[0] == pEpoch[n])
inline Vote(n) {
  d_step {
    ts[n] == PREPARING && dec[n] == ABSENT && !voted[n] ->
    if
    :: !M9 -> pEpoch[n] = be[0]
    :: else
    fi;
    if
    :: bs[0] == ONGOING && Bound(n) ->
       pEpoch[n] = be[0];
       pStart[n] = bt[0];
       voted[n] = 1;
       printf("txn %d: YES under epoch %d\n", n, be[0])
    :: else ->
       printf("txn %d: NO\n", n);
       ts[n] = ABORTING
    fi
  }
}

inline Decide(n) {
  d_step {
    voted[n] && ts[n] == PREPARING ->
    voted[n] = 0;
    dec[n] = BUFFERED;
    ts[n] = COMMITTING;
    printf("txn %d: COMMIT written to the log\n", n)
  }
}

inline Expiry(n) {
  d_step {
    dec[n] == ABSENT && (ts[n] == ACTIVE || ts[n] == PREPARING) -> abortUndecided(n)
  }
}

inline Sync() {
  d_step {
    dec[0] == BUFFERED || dec[1] == BUFFERED || dec[TXNS - 1] == BUFFERED ||
    comp[0] == BUFFERED || comp[1] == BUFFERED || comp[TXNS - 1] == BUFFERED ->
    printf("log: sync\n");
    for (i : 0 .. TXNS - 1) {
      if
      :: dec[i] == BUFFERED ->
         dec[i] = DURABLE;
         decided[i] = 1;
         CHECK(abort_answer_broken, told[i] != ABORTED);
         CHECK(torn, !(fate[i] & ABORTED) || expired[i])
      :: else
      fi;
      if
      :: comp[i] == BUFFERED -> comp[i] = DURABLE; pStart[i] = 0; unsure[i] = 0
      :: else
      fi
    }
    i = 0
  }
}

#define InDoubt(n) (dec[n] == DURABLE && comp[n] == ABSENT)
#define Named(n, e) (be[0] == (e) && (!M6 || bt[0] == pStart[n]))
#define SawOngoing(n) (bs[0] == ONGOING && Named(n, pEpoch[n]))
#define SawCommit(n) (CommitState(0) && Named(n, pEpoch[n]))
#define SawAbort(n) (AbortState(0) && (Named(n, pEpoch[n]) || Named(n, pEpoch[n] + 1)))
#define SawNext(n)                                                                       \
  (INFER && M6 && bs[0] != EMPTY && bt[0] != pStart[n] &&                                \
   (be[0] == pEpoch[n] || (be[0] == pEpoch[n] + 1 && AbortState(0))))

/* TV1: Describe, judge, EndTxn, Describe again. */
inline Describe(n) {
  d_step {
    TV == 1 && InDoubt(n) && !armed[n] &&
    (SawOngoing(n) || SawCommit(n) || SawAbort(n) || SawNext(n)) ->
    if
    :: SawOngoing(n) ->
       printf("txn %d: Describe shows it Ongoing\n", n);
       armed[n] = 1
    :: SawCommit(n) ->
       printf("txn %d: Describe shows it committed\n", n);
       complete(n, COMMITTED)
    :: SawAbort(n) ->
       printf("txn %d: Describe shows it aborted: HEURISTIC\n", n);
       complete(n, ABORTED)
    :: else ->
       printf("txn %d: Describe shows a later one: it was committed\n", n);
       complete(n, COMMITTED)
    fi
  }
}

inline EndTxnTv1(n, answered) {
  d_step {
    TV == 1 && armed[n] && (answered || !unsure[n]) ->
    armed[n] = 0;
    endTxn(0, pEpoch[n], 0, 1);
    unsure[n] = unsure[n] | !(answered) | (crashes > 0);
    printf("txn %d: EndTxn(commit), answered %d, answer %d\n", n, answered, ans)
  }
}

/* TV2: EndTxn's own NONE tells; on INVALID_TXN_STATE, Describe. An answer that would prove nothing
 * changes nothing: it is asked again later. */
#define Tells(n)                                                                         \
  ((bs[0] == ONGOING && be[0] == pEpoch[n]) ||                                           \
   (bs[0] == COMPLETE_COMMIT && be[0] == pEpoch[n] + 1) ||                               \
   (AbortState(0) && (be[0] == pEpoch[n] || be[0] == pEpoch[n] + 1) &&                   \
    (M15 || PidOf(be[0]) == PidOf(pEpoch[n]))))
inline EndTxnTv2(n, answered) {
  d_step {
    TV == 2 && InDoubt(n) && Tells(n) && (answered || bs[0] == ONGOING) ->
    endTxn(0, pEpoch[n], 1, 1);
    printf("txn %d: EndTxn(commit) v5, answered %d, answer %d\n", n, answered, ans);
    if
    :: answered && ans == NONE -> complete(n, COMMITTED)
    :: answered && ans == INVALID_TXN_STATE && AbortState(0) -> complete(n, ABORTED)
    :: else
    fi
  }
}

inline EndTxnLate(n) {
  d_step {
    ((TV == 1 && armed[n]) || (TV == 2 && InDoubt(n) && bs[0] == ONGOING)) &&
      pEpoch[n] == be[0] && !lateCommit[0] ->
    printf("txn %d: EndTxn(commit) is late\n", n);
    armed[n] = 0;
    unsure[n] = 1;
    lateCommit[0] = TV
  }
}

/* Undecided: what is open under its name is aborted, then the client is told. */
#define OpenHere(n) (bs[0] == ONGOING && be[0] == pEpoch[n])
inline AbortBranch(n, answered) {
  d_step {
    ts[n] == ABORTING && (answered || OpenHere(n)) ->
    if
    :: OpenHere(n) || !M13_ONGOING ->
       endTxn(0, pEpoch[n], V5, 0);
       printf("txn %d: EndTxn(abort), answered %d, answer %d\n", n, answered, ans)
    :: else -> printf("txn %d: nothing to abort\n", n)
    fi;
    if
    :: !(answered) -> unsure[n] = 1
    :: else -> ts[n] = GONE
    fi
  }
}

inline AbortLate(n) {
  d_step {
    ts[n] == ABORTING && pEpoch[n] == be[0] && (OpenHere(n) || !M13_ONGOING) ->
    printf("txn %d: EndTxn(abort) is late; nobody waits for it\n", n);
    lateAbort[0] = TV;
    unsure[n] = 1;
    barred = (TV == 1 && M13_ANSWER -> pEpoch[n] + 1 : barred);
    ts[n] = GONE
  }
}

/* Its name was taken away by a client that Lockstep had refused: reported as UNKNOWN. */
#define Unknown(n) lost[n]
inline AtRest() {
  d_step {
    else ->
    for (i : 0 .. TXNS - 1) {
      CHECK(torn, !decided[i] || (fate[i] & COMMITTED) || outcome[i] == ABORTED || Unknown(i));
      CHECK(in_doubt, dec[i] == ABSENT || comp[i] == DURABLE || Unknown(i))
    }
    i = 0
  }
}

#define ClientSteps(k)                                                                   \
  :: Register(k) :: InitTransactions(k) :: Recreate(k) :: Write(k) :: AskCommit(k)       \
  :: AskAbort(k) :: Answer(k) :: EndOwn(k)
#define TxnSteps(n)                                                                      \
  :: Enlist(n, 0) :: Enlist(n, 1) :: Vote(n) :: Decide(n) :: Describe(n)                 \
  :: EndTxnTv1(n, 1) :: EndTxnTv2(n, 1) :: AbortBranch(n, 1)

proctype system() {
  do
  ClientSteps(0)
  ClientSteps(1)
  TxnSteps(0)
  TxnSteps(1)
#if TXNS > 2
  TxnSteps(2)
#endif
  :: Sync()
  :: AtRest()
  od
}

/* ---- the environment ---- */

inline Crash() {
  atomic {
    crashes < CRASHES ->
    crashes++;
    printf("coordinator: kill -9, restarts\n");
    owner = (M16_INCARNATION -> 0 : owner);
    barred = 0;
    stale[0] = (client[0] > STOPPED && client[0] < DEAD);
    stale[1] = (client[1] > STOPPED && client[1] < DEAD);
    for (i : 0 .. TXNS - 1) {
      armed[i] = 0;
      voted[i] = 0;
      unsure[i] = 0;
      if
      :: comp[i] == BUFFERED -> comp[i] = ABSENT; outcome[i] = 0
      :: comp[i] == BUFFERED -> comp[i] = DURABLE; pStart[i] = 0
      :: else
      fi;
      if
      :: dec[i] == BUFFERED ->
         printf("log: the decision of txn %d is lost\n", i);
         CHECK(answer_lost, told[i] != COMMITTED);
         dec[i] = ABSENT
      :: dec[i] == BUFFERED -> dec[i] = DURABLE; decided[i] = 1
      :: else
      fi;
      if
      :: dec[i] == ABSENT && ts[i] != NEW ->
         ts[i] = GONE;
         comp[i] = ABSENT;
         pEpoch[i] = 0;
         pStart[i] = 0
      :: else
      fi
    }
    i = 0
  }
}

inline Timeout() {
  d_step {
    timeouts < TIMEOUTS && bs[0] == ONGOING ->
    timeouts++;
    printf("cluster: the open transaction times out\n");
    expireAll();
    bump(0);
    decideAbort(0)
  }
}

inline LateCommit() {
  d_step {
    lateCommit[0] && (bs[0] == ONGOING) ->
    printf("cluster: a late EndTxn(commit) lands\n");
    endTxn(0, be[0], V5, 1)
  }
}

inline LateAbort() {
  d_step {
    lateAbort[0] && (bs[0] == ONGOING || (TV == 2 && !Preparing(0))) ->
    printf("cluster: a late EndTxn(abort) lands\n");
    endTxn(0, be[0], V5, 0)
  }
}

/* A start time that nobody has seen yet. */
inline freshStart() {
  i = LATE;
  do
  :: i == bt[0] || i == pStart[0] || i == pStart[1] || i == pStart[TXNS - 1] -> i--
  :: else -> break
  od;
  bt[0] = i;
  i = 0
}

inline LateWrite(n) {
  d_step {
    (lateWrite[0] & (1 << n)) && (bs[0] != ONGOING || !(bc[0] & (1 << n))) ->
    printf("cluster: a late write of txn %d lands\n", n);
    if
    :: bs[0] == ONGOING -> bc[0] = bc[0] | (1 << n)
    :: else -> bs[0] = ONGOING; freshStart(); bc[0] = 0
    fi
  }
}

#define TxnFaults(n)                                                                     \
  :: Overlap(n, 0) :: Overlap(n, 1) :: Expiry(n) :: EndTxnTv1(n, 0) :: EndTxnTv2(n, 0)   \
  :: EndTxnLate(n) :: AbortBranch(n, 0) :: AbortLate(n) :: LateWrite(n)
#define ClientFaults(k)                                                                  \
  :: StrayWrite(k) :: WriteUnanswered(k) :: EndOwnUnanswered(k) :: Impatient(k) :: ClientDies(k)

proctype environment() {
  do
  ClientFaults(0)
  ClientFaults(1)
  TxnFaults(0)
  TxnFaults(1)
#if TXNS > 2
  TxnFaults(2)
#endif
  :: Crash()
  :: Timeout()
  :: LateCommit()
  :: LateAbort()
  od
}

init {
  atomic {
    LoadSettings();
    run system();
    run environment()
  }
}
