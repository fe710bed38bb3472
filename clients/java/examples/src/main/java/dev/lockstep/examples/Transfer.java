package dev.lockstep.examples;

import dev.lockstep.client.BeginOptions;
import dev.lockstep.client.ExecuteKey;
import dev.lockstep.client.KafkaRecord;
import dev.lockstep.client.LockstepClient;
import dev.lockstep.client.LockstepException;
import dev.lockstep.client.TxnResult;
import dev.lockstep.client.Work;
import java.time.Instant;
import java.util.List;
import java.util.Scanner;

/**
 * A sharded write path. Accounts live on several clusters, by their number, and a transfer writes to
 * the shards of both: the payer's debit and the payee's credit, or neither.
 *
 * <pre>Transfer LOCKSTEPD SHARD...</pre>
 *
 * The shards are names from lockstepd's configuration. Requests come on its input, a line each: ID
 * MADE_AT PAYER PAYEE AMOUNT, and each is answered on its output: ID OUTCOME. MADE_AT, in
 * milliseconds since 1970, is when the caller made up the ID. A caller that is not answered, or not
 * with COMMITTED, asks again with the same line: under one ID money moves once, whoever crashes
 * meanwhile.
 */
public final class Transfer {
  private record Request(String id, Instant madeAt, long payer, long payee, long amount) {
    static Request parse(String line) {
      Scanner words = new Scanner(line);
      return new Request(
          words.next(),
          Instant.ofEpochMilli(words.nextLong()),
          words.nextLong(),
          words.nextLong(),
          words.nextLong());
    }
  }

  public static void main(String[] args) {
    List<String> shards = List.of(args).subList(1, args.length);
    try (LockstepClient lockstep = LockstepClient.connect(args[0])) {
      Scanner requests = new Scanner(System.in);
      while (requests.hasNextLine()) {
        Request request = Request.parse(requests.nextLine());
        System.out.println(request.id() + " " + transfer(lockstep, shards, request));
      }
    }
  }

  private static String transfer(LockstepClient lockstep, List<String> shards, Request request) {
    List<Work> work =
        List.of(
            posting(shards, request.id(), request.payer(), -request.amount()),
            posting(shards, request.id(), request.payee(), request.amount()));
    ExecuteKey key = new ExecuteKey(request.id(), request.madeAt());
    try {
      TxnResult result =
          lockstep.execute(work, key, BeginOptions.DEFAULT.withLabel("transfer")).result();
      return result.describe();
    } catch (LockstepException e) {
      return "FAILED " + e.getMessage();
    }
  }

  private static Work posting(List<String> shards, String id, long account, long amount) {
    KafkaRecord record = KafkaRecord.of("ledger", Long.toString(account), id + " " + amount);
    return Work.produce(shards.get((int) (account % shards.size())), record);
  }
}
