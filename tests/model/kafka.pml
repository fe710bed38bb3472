/*
 * What a Kafka cluster knows about a transactional id, and how it answers.
 *
 * One place for the EndTxn table of docs/design (v0-4 and v5), InitProducerId, the transaction
 * timeout and the writes that open a transaction. Included by every model here, so that all of
 * them argue about the same broker.
 *
 * The includer defines, before the #include:
 *   NX                 number of (cluster, transactional.id) pairs
 *   OnCommit(x)        what to check when the broker decides COMMIT on x; contents are in bc[x]
 *   OnAbort(x)         the same for ABORT
 *   MARKERS            0: Prepare* turns into Complete* at once. Where a model waits whenever the
 *                      answer would be CONCURRENT, and reads Prepare* as it reads Complete*, the
 *                      state between them shows nothing and only costs states.
 *
 * A request is one atomic step at the broker; what happens between the request and the reader of
 * its answer is the includer's business (see "the network" in managed.pml).
 */

/* State of an id, as DescribeTransactions names it. */
#define EMPTY 0
#define ONGOING 1
#define PREPARE_COMMIT 2
#define PREPARE_ABORT 3
#define COMPLETE_COMMIT 4
#define COMPLETE_ABORT 5

/* Answers. FENCED is INVALID_PRODUCER_EPOCH in v0-1 and PRODUCER_FENCED from v2. */
#define NONE 0
#define FENCED 1
#define INVALID_TXN_STATE 2
#define CONCURRENT 3

byte bs[NX];  /* state */
byte be[NX];  /* epoch */
byte bt[NX];  /* start time of the open or the last transaction (a name, not a clock) */
byte bc[NX];  /* transactions whose writes the open transaction holds: bit n = transaction n */

/* Requests that were sent, never answered, and may still reach the broker, at any time and any
 * number of times: the kernel of a dead process, a slow network. What names an older epoch has no
 * effect any more, so only requests under the current epoch are kept. */
byte lateCommit[NX];  /* EndTxn(commit); the bit is the protocol: 1 = v0-4, 2 = v5 */
byte lateAbort[NX];   /* EndTxn(abort) */
byte lateWrite[NX];   /* AddPartitions, AddOffsets, Produce, TxnOffsetCommit: bit n = of n */

hidden byte ans;

inline bump(x) {
  be[x]++;
  lateCommit[x] = 0;
  lateAbort[x] = 0;
  lateWrite[x] = 0
}

inline decideCommit(x) {
  OnCommit(x);
  bs[x] = (MARKERS -> PREPARE_COMMIT : COMPLETE_COMMIT);
  bc[x] = 0
}

inline decideAbort(x) {
  OnAbort(x);
  bs[x] = (MARKERS -> PREPARE_ABORT : COMPLETE_ABORT);
  bc[x] = 0
}

#define CommitState(x) (bs[x] == PREPARE_COMMIT || bs[x] == COMPLETE_COMMIT)
#define AbortState(x) (bs[x] == PREPARE_ABORT || bs[x] == COMPLETE_ABORT)
#define Preparing(x) (bs[x] == PREPARE_COMMIT || bs[x] == PREPARE_ABORT)

/* What EndTxn does to an id that is past Ongoing, seen by a request whose transaction it is. */
inline endTxnAgain(x, commit) {
  if
  :: Preparing(x) -> ans = CONCURRENT /* while the markers are under way, whatever is asked */
  :: bs[x] == COMPLETE_COMMIT -> ans = (commit -> NONE : INVALID_TXN_STATE)
  :: bs[x] == COMPLETE_ABORT -> ans = (commit -> INVALID_TXN_STATE : NONE)
  :: else -> ans = INVALID_TXN_STATE /* Empty */
  fi
}

/* The table. `v5` is the protocol of the request, whatever the cluster could speak. */
inline endTxn(x, e, v5, commit) {
  if
  :: !(v5) && (e) == be[x] && bs[x] == ONGOING ->
     ans = NONE;
     if
     :: commit -> decideCommit(x)
     :: else -> decideAbort(x)
     fi
  :: !(v5) && (e) == be[x] && bs[x] != ONGOING -> endTxnAgain(x, commit)
  :: (v5) && (e) == be[x] && bs[x] == ONGOING ->
     ans = NONE;
     bump(x);
     if
     :: commit -> decideCommit(x)
     :: else -> decideAbort(x)
     fi
  :: (v5) && (e) == be[x] && Preparing(x) -> ans = CONCURRENT
  :: (v5) && (e) == be[x] && bs[x] != ONGOING && !Preparing(x) ->
     if
     :: commit -> ans = INVALID_TXN_STATE
     :: else -> ans = NONE; bump(x); decideAbort(x)
     fi
  :: (v5) && (e) + 1 == be[x] && bs[x] != ONGOING && bs[x] != EMPTY -> endTxnAgain(x, commit)
  :: else -> ans = FENCED
  fi
}

/* InitProducerId of a new producer (no pid, no epoch of its own): it always wins. On an open
 * transaction it fences and aborts; the answer is CONCURRENT and the caller asks again. */
inline initProducerId(x) {
  if
  :: bs[x] == ONGOING -> ans = CONCURRENT; bump(x); decideAbort(x)
  :: Preparing(x) -> ans = CONCURRENT
  :: else -> ans = NONE; bump(x); bs[x] = EMPTY; bt[x] = 0
  fi
}

/* A write under epoch e (AddPartitions and what follows it) of transaction n; `start` names the
 * transaction that it opens if none is open. */
inline write(x, e, n, start) {
  if
  :: (e) != be[x] -> ans = FENCED
  :: (e) == be[x] && Preparing(x) -> ans = CONCURRENT
  :: (e) == be[x] && bs[x] == ONGOING -> ans = NONE; bc[x] = bc[x] | (1 << (n))
  :: else -> ans = NONE; bs[x] = ONGOING; bt[x] = start; bc[x] = (1 << (n))
  fi
}

/* The coordinator broker finishes what it decided. Markers are taken to be written: what Kafka 4.3
 * and 4.4 do otherwise (KAFKA-20734) is not modelled. */
inline markers(x) {
  if
  :: bs[x] == PREPARE_COMMIT -> bs[x] = COMPLETE_COMMIT
  :: else -> bs[x] = COMPLETE_ABORT
  fi
}

/* Rules and bounds are variables outside of the state, so that one compiled verifier checks all of
 * them. The includer lists its names in FromEnvironment. */
#define SET(name) if (getenv(#name)) name = atoi(getenv(#name));
#ifdef VERIFIER
#define LoadSettings() c_code { FromEnvironment }
#else
#define LoadSettings() skip
#endif
