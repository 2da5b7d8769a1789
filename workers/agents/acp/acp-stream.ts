/** Reads and writes messages of the Agent Client Protocol as lines of an agent's program, at the pace of the turn. */
import type { AnyMessage, Stream } from '@agentclientprotocol/sdk';
import type { AgentProgram } from '../program.ts';

type AcpStreamOptions = {
  /** Resolves when everything read before has been taken. */
  room(): Promise<void>;
  onGarbage(line: string): void;
};

/** Ends with the program; fails with the error of its `lines`. */
export function acpStream(program: AgentProgram, { room, onGarbage }: AcpStreamOptions): Stream {
  const lines = program.lines()[Symbol.asyncIterator]();
  const readable = new ReadableStream<AnyMessage>(
    {
      async pull(controller) {
        for (;;) {
          await room();
          const { done, value } = await lines.next();
          if (done) return controller.close();
          const message = messageOf(value);
          if (message) return controller.enqueue(message);
          if (value.trim() !== '') onGarbage(value);
        }
      },
      async cancel() {
        await lines.return?.();
      },
    },
    // Nothing is read ahead.
    { highWaterMark: 0 },
  );
  const writable = new WritableStream<AnyMessage>({ write: (message) => program.write(JSON.stringify(message)) });
  return { readable, writable };
}

function messageOf(line: string): AnyMessage | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  const message = value as { jsonrpc?: unknown; method?: unknown; id?: unknown } | null;
  if (typeof message !== 'object' || message?.jsonrpc !== '2.0') return null;
  return typeof message.method === 'string' || message.id !== undefined ? (message as AnyMessage) : null;
}
