/**
 * The thread of one live version of an app, or of one automation of it (`dist/actor.js`). It starts blank, with all its code
 * loaded, and becomes an actor when it is handed a spec.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { getHeapStatistics } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { parentPort, threadId } from 'node:worker_threads';
import { type ActorSpec, type Frame, Kind } from '../../protocol/frames.ts';
import { DbClient } from '../../protocol/wire/db-client.ts';
import type { Link } from '../../protocol/wire/link.ts';
import { openLink } from '../link.ts';
import { Calls, type Runner } from './calls.ts';
import { Failures } from './failure.ts';
import { Fires } from './fire-runner.ts';
import { closeGlobals } from './globals.ts';
import { AppLog } from './log.ts';
import { Modules } from './modules.ts';
import { loadSqlite, Reader } from './reader.ts';
import { installJsonRules } from './result.ts';
import type { FromActor, ToActor } from './threads.ts';
import { Tools } from './tools.ts';
import { loadValidators } from './validators.ts';

if (parentPort === null) throw new Error('actor.js is started by a handler host, as a thread.');
const host = parentPort;
const tell = (message: FromActor): void => host.postMessage(message);

class Actor {
  readonly #calls: Calls;
  readonly #failures: Failures;
  readonly #log: AppLog;
  /** What takes the answers to a fire's questions; null in the thread of an app. */
  readonly #fires: Fires | null;
  readonly #reader: Reader | null = null;
  readonly #writer: DbClient | null = null;
  readonly #supervisor: Link;
  #stopping = false;

  /** Throws when the version cannot be run. */
  constructor(spec: ActorSpec, failures: Failures) {
    this.#failures = failures;
    this.#log = new AppLog({
      app: spec.shownApp,
      versionId: spec.versionId,
      write: (line, callId) =>
        this.#supervisor.send(callId === undefined ? [Kind.log, line] : [Kind.log, line, callId]),
      now: Date.now,
    });
    const send = (frame: Frame): void => this.#supervisor.send(frame);
    const modules = new Modules(spec.codeDir);
    const validators = loadValidators(readFileSync(join(spec.preparedDir, 'validators.js'), 'utf8'));
    const log = this.#log;
    let runner: Runner;
    if (spec.automation === null) {
      const reader = new Reader(spec.dataFile);
      const writer = new DbClient((handlers, session) =>
        openLink(spec.writerSocket, spec.writerTicket, handlers, session),
      );
      this.#reader = reader;
      this.#writer = writer;
      this.#fires = null;
      runner = new Tools({ spec, modules, validators, reader, writer, log });
    } else {
      this.#fires = new Fires({ spec, modules, validators, log, send });
      runner = this.#fires;
    }
    this.#calls = new Calls({ runner, failures, send });
    this.#supervisor = openLink(spec.supervisorSocket, spec.supervisorTicket, {
      onFrame: (frame) => this.#receive(frame),
      onClose: () => this.#supervisorGone(),
    });
    this.#supervisor.send([Kind.ready, { pid: process.pid, threadId }]);
    closeGlobals(this.#log.console());
    process.on('unhandledRejection', (reason) => this.#report('Unhandled promise rejection', reason));
    process.on('uncaughtException', (error) => this.#crash(error));
  }

  /** Finishes the calls it has and ends the thread. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#calls.idle();
    this.#writer?.end();
    this.#reader?.close();
    this.#supervisor.close();
  }

  #receive(frame: Frame): void {
    switch (frame[0]) {
      case Kind.dispatch:
        this.#calls.dispatch(frame);
        break;
      case Kind.cancel:
        this.#calls.cancel(frame[1], frame[2]);
        break;
      case Kind.ping:
        this.#supervisor.send([
          Kind.pong,
          frame[1],
          { heapUsed: getHeapStatistics().used_heap_size, counters: this.#calls.counters },
        ]);
        break;
      case Kind.answer:
        this.#fires?.answered(frame);
        break;
      default:
        this.#supervisor.close(new Error('The supervisor sent a frame that an actor does not take.'));
    }
  }

  /** The end of this connection is the end of the actor: nobody else could hand it a call. */
  #supervisorGone(): void {
    if (!this.#stopping) tell({ type: 'crashed', detail: 'The connection to the supervisor was lost.' });
    process.exit(this.#stopping ? 0 : 1);
  }

  /** An error outside every call, such as in a timer: the state of the app's code is in doubt, so the thread ends. */
  #crash(error: unknown): void {
    this.#report('An error that nothing caught ended the app', error);
    // The close writes what is queued, the last line of the log included.
    this.#supervisor.close();
    tell({ type: 'crashed', detail: this.#failures.message(error) });
    process.exit(1);
  }

  #report(what: string, thrown: unknown): void {
    this.#log.report('error', `${what}: ${this.#failures.message(thrown)}`, this.#failures.fields(thrown));
  }
}

/** What buffers and the like hold. Over the budget it counts only what is still used. */
function bytesOutsideHeap(budget: number): number {
  const bytes = getHeapStatistics().external_memory;
  if (bytes <= budget) return bytes;
  // The host has V8 hand out its collector to new contexts.
  (runInNewContext('gc') as () => void)();
  return getHeapStatistics().external_memory;
}

/** The number by which Linux knows this thread; 0 elsewhere. */
function osThreadNumber(): number {
  try {
    return Number.parseInt(readFileSync('/proc/thread-self/stat', 'utf8'), 10);
  } catch {
    return 0;
  }
}

loadSqlite();
installJsonRules();
const osThread = osThreadNumber();
let actor: Actor | null = null;
host.on('message', (message: ToActor) => {
  if (message.type === 'stop') {
    void actor?.stop();
    return;
  }
  if (message.type === 'measure') {
    tell({ type: 'measured', bytes: bytesOutsideHeap(message.budget) });
    return;
  }
  const { spec } = message;
  const install = dirname(fileURLToPath(import.meta.url));
  const failures = new Failures([spec.codeDir, spec.preparedDir, dirname(spec.dataFile), install]);
  try {
    actor = new Actor(spec, failures);
    tell({ type: 'ready', osThread });
  } catch (error) {
    tell({ type: 'failed', detail: failures.message(error) });
    process.exit(1);
  }
});
