"""One record on each of two clusters, or on none.

  transfer.py SERVER CLUSTER_A CLUSTER_B TOPIC      such as: transfer.py 127.0.0.1:7420 east west orders
"""

import sys

import lockstep


def main() -> None:
    server, east, west, topic = sys.argv[1:]
    with lockstep.Client(server) as client, client.transaction(label="transfer") as txn:
        txn.produce(east, topic, "100 paid", key="alice")
        txn.produce(west, topic, "100 received", key="bob")
        result = txn.commit()
    print(txn.id, result.outcome.value)
    result.raise_unless_committed()


if __name__ == "__main__":
    main()
