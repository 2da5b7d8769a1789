/**
 * Runs one live version of an app, or one of its automations, in a thread (`dist/actor.cjs`). The thread starts blank, with all
 * our code loaded, and becomes an actor when the host sends it a spec.
 */
import './no-code-of-text.ts';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { getHeapStatistics } from 'node:v8';
import { parentPort, threadId } from 'node:worker_threads';
import { SvcError } from '../../protocol/errors.ts';
import { Redactor } from '../../protocol/text/redactor.ts';
import { DbClient } from '../../protocol/wire/db-client.ts';
import { DbError } from '../../protocol/wire/db-error.ts';
import { type ActorSpec, type Frame, Kind } from '../../protocol/wire/frames.ts';
import { type Link, openLink } from '../../protocol/wire/link.ts';
import { loadSqlite, openSqlite } from '../../storage/sqlite.ts';
import { StatementError } from '../writer/statements.ts';
import { Calls, type Runner } from './calls.ts';
import { ActorAsks } from './context/asks.ts';
import { ActorBlobs } from './context/context-blobs.ts';
import { showTime } from './context/context-clock.ts';
import { CallDatabase, isOfTransaction } from './context/context-database.ts';
import { ActorSecrets } from './context/context-secrets.ts';
import { HandlerContext, type Resources, Tools } from './context/context-tools.ts';
import { EgressError, HTTP_CLASSES, HttpClient, httpClass, watchHttpClient } from './context/fetch.ts';
import { AppLog } from './context/log.ts';
import { Reader } from './context/reader.ts';
import { countGlobals, countLoaded } from './effects.ts';
import { FireRunner } from './fire-runner.ts';
import { closeGlobals } from './globals.ts';
import { AskError, HandlerErrors } from './handler-errors.ts';
import type { FromActor, ToActor } from './host.ts';
import { loadValidators } from './load-validators.ts';
import { bytesOutsideHeap, osThreadNumber } from './memory-watch.ts';
import { Modules } from './modules.ts';
import { installJsonRules } from './result.ts';
import { SourcePositions } from './source-positions.ts';
import { becameHandled, becameUnhandled } from './unhandled.ts';

if (parentPort === null) throw new Error('actor.cjs is started by a handler host, as a thread.');
const host = parentPort;
const tell = (message: FromActor): void => host.postMessage(message);

/** Our classes that app code sees. */
const OURS = [CallDatabase, HandlerContext, SvcError, DbError, StatementError, AskError, EgressError];

class Actor {
  readonly #runner: Runner;
  readonly #calls: Calls;
  readonly #failures: HandlerErrors;
  readonly #log: AppLog;
  readonly #secrets: ActorSecrets;
  readonly #blobs: ActorBlobs;
  readonly #asks: ActorAsks;
  readonly #supervisor: Link;
  #stopping = false;

  /** Throws when the version cannot be run. */
  constructor(spec: ActorSpec, failures: HandlerErrors, redactor: Redactor, positions: SourcePositions) {
    const send = (frame: Frame): void => this.#supervisor.send(frame);
    const log = new AppLog({
      app: spec.shownApp,
      versionId: spec.versionId,
      write: (line, callId) => send(callId === undefined ? [Kind.log, line] : [Kind.log, line, callId]),
      now: Date.now,
      redactor,
      positions,
    });
    this.#secrets = new ActorSecrets(spec.app, redactor);
    this.#blobs = new ActorBlobs(spec.blobs, send);
    this.#asks = new ActorAsks(send, spec.automation === null ? 'call' : 'run');
    const modules = new Modules(spec.codeDir, join(spec.preparedDir, 'erased'));
    const validators = loadValidators(readFileSync(join(spec.preparedDir, 'validators.js'), 'utf8'));
    const shared = { secrets: this.#secrets, blobs: this.#blobs, asks: this.#asks };
    const env = { spec, modules, validators, log, redactor, ...shared };
    this.#failures = failures;
    this.#log = log;
    this.#runner = spec.automation === null ? new Tools(env, resourcesOf(spec, redactor)) : new FireRunner(env);
    this.#calls = new Calls(this.#runner, failures, log, redactor, send);
    this.#supervisor = openLink(spec.supervisorSocket, spec.supervisorTicket, {
      onFrame: (frame) => this.#receive(frame),
      onClose: () => this.#supervisorGone(),
    });
    send([Kind.ready, { pid: process.pid, threadId }]);
    countGlobals();
    watchHttpClient();
    closeGlobals(log.console(), OURS, new Map(HTTP_CLASSES.map((name) => [name, () => countedHttpClass(name)])));
    process.on('unhandledRejection', (reason, promise) => {
      if (!isOfTransaction(promise)) becameUnhandled(reason, promise);
      this.#report('Unhandled promise rejection', reason);
    });
    process.on('rejectionHandled', becameHandled);
    process.on('uncaughtException', (error) => this.#crash(error));
  }

  /** Finishes the calls it has and ends the thread. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#calls.idle();
    this.#runner.close();
    this.#supervisor.close();
  }

  #receive(frame: Frame): void {
    switch (frame[0]) {
      case Kind.dispatch:
        this.#calls.dispatch(frame);
        break;
      case Kind.caller:
        this.#calls.told(frame);
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
      case Kind.secrets:
        this.#secrets.received(frame);
        break;
      case Kind.clock:
        showTime(frame[1]);
        break;
      case Kind.blobDone:
        this.#blobs.answered(frame);
        break;
      case Kind.schemaChanged:
        this.#runner.schemaChanged();
        break;
      case Kind.answer:
        this.#asks.answered(frame);
        break;
      default:
        this.#supervisor.close(new Error('The supervisor sent a frame that an actor does not take.'));
    }
  }

  /** Calls come over this connection only, so the actor ends with it. */
  #supervisorGone(): void {
    if (!this.#stopping) tell({ type: 'crashed', detail: 'The connection to the supervisor was lost.' });
    process.exit(this.#stopping ? 0 : 1);
  }

  /** An error outside every call, such as in a timer: the state of the app's code is in doubt, so the thread ends. */
  #crash(error: unknown): void {
    this.#report('An error that nothing caught ended the app', error);
    // Closing writes what is queued, such as the last line of the log.
    this.#supervisor.close();
    tell({ type: 'crashed', detail: this.#failures.message(error) });
    process.exit(1);
  }

  #report(what: string, thrown: unknown): void {
    this.#log.report(`${what}: ${this.#failures.message(thrown)}`, this.#failures.fields(thrown));
  }
}

function countedHttpClass(name: string): unknown {
  const value = httpClass(name);
  countLoaded(name, value);
  return value;
}

function resourcesOf(spec: ActorSpec, redactor: Redactor): Resources {
  const { dataFile, migrated, writerSocket, writerTicket, egress } = spec;
  return {
    reader: new Reader(openSqlite, dataFile, migrated),
    writer: new DbClient((handlers, connectionId, socket = writerSocket) =>
      openLink(socket, writerTicket, handlers, connectionId),
    ),
    http: new HttpClient(egress, redactor),
  };
}

// Saves the first read the time, and nothing loads after app code has run.
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
  const redactor = new Redactor();
  const positions = new SourcePositions(spec.codeDir);
  const folders = [spec.codeDir, spec.preparedDir, dirname(spec.dataFile), dirname(spec.blobs.live ?? spec.blobs.own)];
  const failures = new HandlerErrors([...folders, install], redactor, positions);
  try {
    actor = new Actor(spec, failures, redactor, positions);
    tell({ type: 'ready', osThread });
  } catch (error) {
    tell({ type: 'failed', detail: failures.message(error) });
    process.exit(1);
  }
});
