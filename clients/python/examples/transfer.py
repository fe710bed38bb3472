"""A sharded write path. Accounts live on several clusters, by their number, and a transfer writes to the
shards of both: the payer's debit and the payee's credit, or neither.

  transfer.py SERVER SHARD...      SHARD: a cluster of Lockstep's configuration

Requests come on its input, a line each: ID MADE_AT PAYER PAYEE AMOUNT, and each is answered on its output:
ID OUTCOME. MADE_AT, in milliseconds since 1970, is when the caller made up the ID. A caller that is not
answered, or not with COMMITTED, asks again with the same line: under one ID money moves once, whoever
crashes meanwhile.
"""

import sys
from typing import List

import lockstep


def transfer(client: lockstep.Client, shards: List[str], request: str) -> str:
    name, made_at, payer, payee, amount = request.split()

    def posting(account: str, change: int) -> lockstep.Work:
        record = lockstep.Record("ledger", f"{name} {change}", key=account)
        return lockstep.Work(shards[int(account) % len(shards)], [record])

    work = [posting(payer, -int(amount)), posting(payee, int(amount))]
    key = lockstep.ExecuteKey(name, int(made_at) / 1000)
    try:
        result = client.execute(work, key=key, label="transfer").result
        return f"{name} {result.outcome.value} {result.abort.message if result.abort else ''}"
    except lockstep.CallFailed as failed:
        return f"{name} FAILED {failed}"


def main() -> None:
    server, *shards = sys.argv[1:]
    with lockstep.Client(server) as client:
        for request in sys.stdin:
            print(transfer(client, shards, request), flush=True)


if __name__ == "__main__":
    main()
