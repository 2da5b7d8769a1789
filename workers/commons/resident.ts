/**
 * Runs the queries of one app in its own realm, a context of the commons (`dist/resident.cjs`): as an actor does in its thread, with
 * the same code.
 */
import '../handler/no-code-of-text.ts';
import { SvcError } from '../../protocol/errors.ts';
import { Redactor } from '../../protocol/text/redactor.ts';
import { NOT_GIVEN } from '../../protocol/wire/commons.ts';
import { DbError } from '../../protocol/wire/db-error.ts';
import { type Frame, Kind } from '../../protocol/wire/frames.ts';
import { Calls } from '../handler/calls.ts';
import { ActorAsks } from '../handler/context/asks.ts';
import type { BlobsOfCalls } from '../handler/context/context-blobs.ts';
import { CallDatabase, type Writer } from '../handler/context/context-database.ts';
import { ActorSecrets } from '../handler/context/context-secrets.ts';
import { type Fetcher, HandlerContext, Tools } from '../handler/context/context-tools.ts';
import { AppLog } from '../handler/context/log.ts';
import { Reader } from '../handler/context/reader.ts';
import { countLanguage } from '../handler/effects.ts';
import { closeGlobals } from '../handler/globals.ts';
import { AskError, HandlerErrors } from '../handler/handler-errors.ts';
import { installJsonRules } from '../handler/result.ts';
import { SourcePositions } from '../handler/source-positions.ts';
import { becameHandled, becameUnhandled } from '../handler/unhandled.ts';
import type { Validate, Validators } from '../handler/validators.ts';
import { StatementError } from '../writer/statements.ts';
import { across, guarded, SqliteError } from './crossing.ts';
import type { Given, GivenApp, Resident, Settle } from './given.ts';
import { leave, onLeave } from './leaving.ts';
import { inRealm } from './realm-database.ts';
import { ScriptModules } from './script-modules.ts';
import { installTimers, TIMER_CLASSES } from './timers.ts';
import { completeSymbols, webGlobals } from './web/web-globals.ts';

// App code could replace them.
const { parse, stringify } = JSON;
const { assign, entries } = Object;

/** Our classes that app code sees. */
const OURS = [CallDatabase, HandlerContext, SvcError, DbError, StatementError, AskError, SqliteError, ...TIMER_CLASSES];

const toWriter = (): never => leave('globals', 'a statement for the writer');
const WRITER: Writer = {
  get: toWriter,
  all: toWriter,
  run: toWriter,
  batch: toWriter,
  exec: toWriter,
  begin: toWriter,
  commit: toWriter,
  rollback: toWriter,
  end: () => {},
};
const HTTP: Fetcher = { fetch: () => leave('globals', 'ctx.fetch') };
const BLOBS: BlobsOfCalls = {
  of: () => leave('globals', 'ctx.blobs'),
  isPending: () => false,
  finished: () => Promise.resolve(),
};

/** Closes the realm. Called once in it. */
export function prepare(thread: Given): Settle {
  const given = guardedAll(thread);
  onLeave(given.leave);
  const redactor = new Redactor();
  const sink = {
    ...{ app: '', versionId: '', positions: new SourcePositions(''), redactor, now: Date.now },
    write: (line: string, callId?: number) =>
      given.send(callId === undefined ? [Kind.log, line] : [Kind.log, line, callId]),
  };
  const log = new AppLog(sink);
  closeRealm(log, given);
  return (app) => {
    const { shownApp, versionId, codeDir } = app.spec;
    const positions = new SourcePositions(codeDir);
    assign(sink, { app: shownApp, versionId, positions });
    return settle(app, given, log, redactor, positions);
  };
}

function settle(app: GivenApp, given: Given, log: AppLog, redactor: Redactor, positions: SourcePositions): Resident {
  const { spec } = app;
  const { send } = given;
  const validators = { queries: ownValidators(app.validators), actions: {}, automations: {} };
  const failures = new HandlerErrors([spec.codeDir, spec.preparedDir, given.install], redactor, positions);
  const secrets = new ActorSecrets(spec.app, redactor);
  const reader = new Reader(inRealm(given.openSqlite), spec.dataFile, spec.migrated);
  const modules = new ScriptModules(app.script, given.compile);
  const asks = new ActorAsks(send, 'call');
  const env = { spec, modules, validators, log, redactor, secrets, blobs: BLOBS, asks };
  const tools = new Tools(env, { reader, writer: WRITER, http: HTTP });
  const calls = new Calls(tools, failures, log, redactor, send);
  return {
    receive: (frame) => receive(frame, calls, tools, secrets, send),
    rejected: (reason, promise) => {
      becameUnhandled(reason, promise);
      log.report(`Unhandled promise rejection: ${failures.message(reason)}`, failures.fields(reason));
    },
    handled: becameHandled,
    rest: () => reader.rest(),
  };
}

function receive(frame: Frame, calls: Calls, tools: Tools, secrets: ActorSecrets, send: (frame: Frame) => void): void {
  switch (frame[0]) {
    case Kind.dispatch:
      calls.dispatch(frame);
      break;
    case Kind.caller:
      calls.told(frame);
      break;
    case Kind.cancel:
      calls.cancel(frame[1], frame[2]);
      break;
    case Kind.secrets:
      secrets.received(frame);
      break;
    case Kind.schemaChanged:
      tools.schemaChanged();
      break;
    case Kind.ping:
      send([Kind.pong, frame[1], { heapUsed: 0, counters: calls.counters }]);
  }
}

/** Those of the thread; what they say of an input, and a stack overflow in them, belong to this realm. */
function ownValidators(thread: Validators['queries']): Validators['queries'] {
  const validators = entries(thread).map(([tool, validate]) => {
    const own: Validate = (input) => {
      const isValid = across(() => validate(input));
      own.errors = isValid ? null : (parse(stringify(validate.errors ?? [])) as Validate['errors'] & object);
      return isValid;
    };
    return [tool, own] as const;
  });
  return Object.fromEntries(validators);
}

function guardedAll(thread: Given): Given {
  const members = Object.entries(thread).map(([name, value]) => [
    name,
    typeof value === 'function' ? guarded(value) : value,
  ]);
  return Object.fromEntries(members) as Given;
}

/** Closes the globals of the realm as those of a thread are. */
function closeRealm(log: AppLog, given: Given): void {
  installJsonRules(false);
  countLanguage();
  installTimers(given);
  Object.defineProperty(globalThis, 'global', { value: globalThis, writable: true, configurable: true });
  completeSymbols();
  const refused = NOT_GIVEN.map((name) => [name, () => leave('globals', name)] as const);
  closeGlobals(log.console(), OURS, new Map<string, () => unknown>([...refused, ...webGlobals(given.web)]));
}
