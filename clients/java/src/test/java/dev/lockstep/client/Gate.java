package dev.lockstep.client;

import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * The network before one broker, which advertises this address: it can hold the next EndTxn of the
 * server's, and deliver it later.
 */
final class Gate implements Closeable {
  private static final short END_TXN = 26;
  private static final String SERVER = "lockstep"; // Its client.id.

  private final ServerSocket listener = new ServerSocket(0, 64, InetAddress.getLoopbackAddress());
  private final List<Socket> sockets = new ArrayList<>();
  private int upstream; // 0: connections are closed at once.
  private boolean holdsNext;
  private CompletableFuture<byte[]> held = new CompletableFuture<>();
  private CompletableFuture<Void> cut = new CompletableFuture<>();

  Gate() throws IOException {
    start(this::accept);
  }

  private static void start(Runnable work) {
    Thread thread = new Thread(work, "gate");
    thread.setDaemon(true);
    thread.start();
  }

  int port() {
    return listener.getLocalPort();
  }

  synchronized void leadTo(String address) {
    upstream = Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
  }

  synchronized void holdNextEndTxn() {
    holdsNext = true;
    held = new CompletableFuture<>();
    cut = new CompletableFuture<>();
  }

  /** Until it holds one; its connection is silent from then on. */
  void awaitHeld() {
    held.join();
  }

  /** Cuts that connection: the server learns that it has no answer. */
  void cut() {
    cut.complete(null);
  }

  /** Gives the broker what was held. The error code of its answer. */
  int deliver() throws IOException {
    byte[] request = held.join();
    try (Socket broker = connect()) {
      write(broker, request);
      ByteBuffer answer = ByteBuffer.wrap(read(broker));
      // Correlation id, from version 3 on a byte of tags, throttle time, error code.
      return answer.getShort(ByteBuffer.wrap(request).getShort(2) >= 3 ? 9 : 8);
    }
  }

  private synchronized Socket connect() throws IOException {
    Socket broker = new Socket(InetAddress.getLoopbackAddress(), upstream);
    broker.setTcpNoDelay(true);
    sockets.add(broker);
    return broker;
  }

  private void accept() {
    for (;;) {
      try {
        Socket client = listener.accept();
        client.setTcpNoDelay(true);
        synchronized (this) {
          sockets.add(client);
        }
        try {
          Socket broker = connect();
          start(() -> pump(client, broker));
          start(() -> pump(broker, client));
        } catch (IOException e) {
          client.close();
        }
      } catch (IOException e) {
        return; // Closed.
      }
    }
  }

  private void pump(Socket from, Socket to) {
    try (from;
        to) {
      for (;;) {
        byte[] frame = read(from);
        if (isToHold(from, frame)) {
          held.complete(frame);
          cut.join();
          return;
        }
        write(to, frame);
      }
    } catch (IOException e) {
      // Either side has closed.
    }
  }

  private synchronized boolean isToHold(Socket from, byte[] frame) {
    if (!holdsNext || from.getLocalPort() != port()) return false;
    // API key, version, correlation id, client.id: the same in every request.
    ByteBuffer request = ByteBuffer.wrap(frame);
    int size = request.getShort(8);
    if (request.getShort(0) != END_TXN || size < 0) return false;
    if (!new String(frame, 10, size, StandardCharsets.UTF_8).equals(SERVER)) return false;
    holdsNext = false;
    return true;
  }

  private static byte[] read(Socket socket) throws IOException {
    DataInputStream in = new DataInputStream(socket.getInputStream());
    byte[] frame = new byte[in.readInt()];
    in.readFully(frame);
    return frame;
  }

  private static void write(Socket socket, byte[] frame) throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(4 + frame.length).putInt(frame.length).put(frame);
    new DataOutputStream(socket.getOutputStream()).write(bytes.array());
  }

  @Override
  public synchronized void close() throws IOException {
    listener.close();
    cut.complete(null);
    for (Socket socket : sockets) socket.close();
  }
}
