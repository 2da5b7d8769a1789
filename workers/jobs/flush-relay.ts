/** Passes flushes of job threads to the supervisor where Node denies them to this process (`storage/files/flush.ts`). */
import { MessageChannel, type MessagePort, parentPort } from 'node:worker_threads';
import { type FlushFault, type Frame, type FrameOf, Kind } from '../../protocol/wire/frames.ts';

/** The first message of a thread to its process. */
type Opened = { flushes: MessagePort };
type Asked = [number: number, path: string];
type Answered = [number: number, fault: FlushFault | null];

/** The thread's side. Rejects with the error that the supervisor met. */
export function flushesOfThread(): (path: string) => Promise<void> {
  const waiting = new Map<number, (fault: FlushFault | null) => void>();
  let port: MessagePort | null = null;
  let asked = 0;
  const open = (): MessagePort => {
    const { port1, port2 } = new MessageChannel();
    parentPort?.postMessage({ flushes: port2 } satisfies Opened, [port2]);
    port1.on('message', ([number, fault]: Answered) => {
      waiting.get(number)?.(fault);
      waiting.delete(number);
    });
    return port1;
  };
  return async (path) => {
    port ??= open();
    const number = ++asked;
    port.postMessage([number, path] satisfies Asked);
    const fault = await new Promise<FlushFault | null>((resolve) => waiting.set(number, resolve));
    if (fault !== null) throw Object.assign(new Error(fault.message), { code: fault.code });
  };
}

/** The process's side: numbers the requests of all threads, and gives each its answers. */
export class FlushRelay {
  readonly #send: (frame: Frame) => void;
  readonly #waiting = new Map<number, (fault: FlushFault | null) => void>();
  #sent = 0;

  constructor(send: (frame: Frame) => void) {
    this.#send = send;
  }

  serve({ flushes }: Opened): void {
    flushes.on('message', ([number, path]: Asked) => {
      const id = ++this.#sent;
      this.#waiting.set(id, (fault) => flushes.postMessage([number, fault] satisfies Answered));
      this.#send([Kind.flush, id, path]);
    });
  }

  answer([, id, fault]: FrameOf<'flushed'>): void {
    this.#waiting.get(id)?.(fault);
    this.#waiting.delete(id);
  }
}
