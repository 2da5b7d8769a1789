/** A raw TCP connection to the server under load: one read buffer for all, no stream machinery on the way in. */
import { connect, type Socket } from 'node:net';

const READ_BYTES = 64 * 1024;
/** One for all connections: libuv fills it and calls back before it reads from another. */
const READ_BUFFER = Buffer.allocUnsafe(READ_BYTES);

/** `onData` gets bytes that are overwritten by the next read. `onClose` hears of every end that `destroy` did not cause. */
export type ConnectionEvents = { onOpen(): void; onData(bytes: Buffer): void; onClose(error: Error): void };

export function openConnection(port: number, events: ConnectionEvents): Socket {
  const socket = connect({
    port,
    host: '127.0.0.1',
    noDelay: true,
    onread: {
      buffer: READ_BUFFER,
      callback: (length) => {
        events.onData(READ_BUFFER.subarray(0, length));
        return true;
      },
    },
  });
  let failure = new Error('The server closed the connection.');
  socket.on('connect', events.onOpen);
  socket.on('error', (error) => {
    failure = error;
  });
  socket.on('close', () => events.onClose(failure));
  return socket;
}
