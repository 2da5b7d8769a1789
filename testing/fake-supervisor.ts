/** For tests: the supervisor's side of a real handler host and a real writer, over real sockets. Needs a built dist/. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ErrorBody } from '../protocol/errors.ts';
import type { JsonSchema } from '../protocol/manifest.ts';
import { COMMONS_FILE, type OwnReason } from '../protocol/wire/commons.ts';
import {
  type ActorSpec,
  type AskVerb,
  type CancelReason,
  type Frame,
  type FrameOf,
  type HostBootstrap,
  Kind,
  ToolKind,
  type ToolKindValue,
} from '../protocol/wire/frames.ts';
import { ADMIN_CALLER, CALLER_KINDS, callerText, type HandlerCaller } from '../protocol/wire/handler-caller.ts';
import { hostFlags, OWN_PROCESS } from '../protocol/wire/host-flags.ts';
import { Link } from '../protocol/wire/link.ts';
import { openTicket, signTicket, type Ticket } from '../protocol/wire/ticket.ts';
import { commonsScript } from '../workers/jobs/commons-script.ts';
import { compileValidators } from '../workers/jobs/compile-validators.ts';
import { inTime, LONG_MS } from './waiting.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, 'dist');

/** Files by path, and schemas by tool (`queries/list`). Tools are the files under queries/ and actions/. */
export type AppSource = { files: Record<string, string>; schemas?: Record<string, JsonSchema>; validators?: string };
export type Exit = { reason: FrameOf<'exited'>[2]; detail: string };
export type LogLine = {
  level: string;
  msg: string;
  tool: string | null;
  traceId: string | null;
  runId?: string;
  [field: string]: unknown;
};
/** The result of a successful call, as the caller sees it. */
export type Outcome = { status: number; value: unknown; handlerMs: number };

/** A request of a fire, and how a test answers it. */
export type Ask = {
  verb: AskVerb;
  callId: number;
  payload: unknown;
  answer(value?: unknown): void;
  refuse(error: ErrorBody): void;
};

/** Of what the host writes to its standard error, which an error shows. */
const SAID_CHARS = 4000;

/** Whether apps begin in the commons, where they can: the same cases run with either. */
let begins: 'thread' | 'commons' = 'thread';
export function beginIn(place: 'thread' | 'commons'): void {
  begins = place;
}

/** A call that was answered with an error frame. */
export class CallFailed extends Error {
  readonly body: ErrorBody;
  constructor(body: ErrorBody) {
    super(`${body.code}: ${body.message}`);
    this.body = body;
  }
}

/** The error that a call is answered with. */
export async function failure(call: Promise<Outcome>): Promise<ErrorBody> {
  const outcome = await call.catch((error: unknown) => error);
  if (outcome instanceof CallFailed) return outcome.body;
  throw new Error(`The call was not answered with an error: ${JSON.stringify(outcome)}`);
}

export class FakeSupervisor {
  readonly dir: string;
  readonly host: ChildProcess;
  readonly #writer: ChildProcess;
  readonly #server: Server;
  readonly #key: Buffer;
  readonly #apps = new Map<number, App>();
  readonly #events = new EventEmitter();
  #hostLink: Link | null = null;
  /** The thread of the commons; null where there is none. */
  commons: Link | null = null;
  #lastActor = 0;
  /** The end of the host's standard error. */
  #said = '';
  #isClosing = false;

  /** Starts a writer and a handler host and waits until both are ready. */
  static async start(options: Partial<HostBootstrap> = {}): Promise<FakeSupervisor> {
    const dir = realpathSync(mkdtempSync(join(tmpdir(), 'svc-handler-')));
    const key = randomBytes(32);
    const socket = join(dir, 's.sock');
    const server = createServer();
    server.listen(socket);
    await once(server, 'listening');
    const writer = spawn(process.execPath, [join(dist, 'writer.cjs')], { stdio: ['pipe', 'inherit', 'inherit'] });
    const readable = [...OWN_PROCESS, realpathSync(dist), join(root, 'node_modules'), join(dir, 'apps')];
    mkdirSync(join(dir, 'apps'));
    const flags = hostFlags(readable);
    const host = spawn(process.execPath, [...flags, join(dist, 'host.cjs')], {
      env: {},
      stdio: ['pipe', 'inherit', 'pipe'],
    });
    const supervisor = new FakeSupervisor(dir, key, server, writer, host);
    const ready = Promise.all([once(supervisor.#events, 'writer-ready'), once(supervisor.#events, 'host-ready')]);
    const ticket = (ticket: Ticket): string => signTicket(ticket, key);
    writer.stdin?.write(
      `${JSON.stringify({
        supervisorSocket: socket,
        writerSocket: join(dir, 'w.sock'),
        ticket: ticket({ role: 'writer', name: 'writer' }),
        watchTicket: ticket({ role: 'writer-watch', name: 'writer' }),
        key: key.toString('hex'),
        durability: 'normal',
        only: null,
        elsewhere: {},
        before: { progress: [], isPartial: true },
      })}\n`,
    );
    const bootstrap: HostBootstrap = {
      supervisorSocket: socket,
      ticket: ticket({ role: 'host', host: 'h1' }),
      actorMemoryMb: 64,
      ...options,
    };
    host.stdin?.write(`${JSON.stringify(bootstrap)}\n`);
    const ended = Promise.race([once(writer, 'exit'), once(host, 'exit')]).then(() => {
      throw new Error('The writer or the host ended while it started; is dist/ built?');
    });
    await inTime(Promise.race([ready, ended]), 'the start of the writer and the host', LONG_MS);
    ended.catch(() => {});
    if (begins === 'commons') await supervisor.startCommons();
    return supervisor;
  }

  /** Starts the thread of the commons; resolves when it is ready. */
  async startCommons(): Promise<void> {
    const ready = once(this.#events, 'commons-ready');
    this.send([Kind.commons, signTicket({ role: 'commons', host: 'h1', n: 1 }, this.#key)]);
    const ended = once(this.host, 'exit').then(() => {
      throw new Error('The host ended.');
    });
    await inTime(Promise.race([ready, ended]), 'the start of the commons', LONG_MS);
  }

  /** The app with this number goes on in a thread, the others in the next commons. */
  async #settleAgain(actorId: number): Promise<void> {
    const others = [...this.#apps.values()].filter((app) => app.inCommons && app.spec.actorId !== actorId);
    this.#apps.get(actorId)?.leaves('failed');
    await this.startCommons();
    for (const app of others) app.settleAgain();
  }

  /** How the thread of the commons ends, once. */
  async commonsEnded(): Promise<FrameOf<'commonsEnded'>> {
    const [frame] = (await inTime(once(this.#events, 'commons-ended'), 'the end of the commons', LONG_MS)) as [
      FrameOf<'commonsEnded'>,
    ];
    return frame;
  }

  private constructor(dir: string, key: Buffer, server: Server, writer: ChildProcess, host: ChildProcess) {
    this.dir = dir;
    this.#key = key;
    this.#server = server;
    this.#writer = writer;
    this.host = host;
    host.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#said = (this.#said + text).slice(-SAID_CHARS);
      process.stderr.write(text);
    });
    host.once('close', (code, signal) => this.#hostEnded(code ?? signal));
    server.on('connection', (socket) => {
      let role: Ticket | null = null;
      new Link(socket, {
        onFrame: (frame, link) => {
          if (frame[0] === Kind.hello) role = openTicket(frame[1], key);
          if (role?.role === 'host') this.#fromHost(frame, link);
          if (role?.role === 'writer' && frame[0] === Kind.ready) this.#events.emit('writer-ready');
          if (role?.role === 'commons') this.#fromCommons(frame, link);
          if (role?.role === 'actor') this.#apps.get(role.actorId)?.receive(frame, link);
        },
        onClose: () => {},
      });
    });
  }

  /** Stores the app's files and starts an actor for them; resolves with it when it is ready or has failed to start. */
  async app(source: AppSource, spec: Partial<ActorSpec> = {}): Promise<App> {
    const app = this.startApp(source, spec);
    await Promise.race([app.ready, app.exited]);
    return app;
  }

  startApp({ files, schemas = {}, validators }: AppSource, spec: Partial<ActorSpec> = {}): App {
    const actorId = ++this.#lastActor;
    const id = spec.app ?? `app${actorId}`;
    const dir = join(this.dir, 'apps', id);
    const codeDir = join(dir, 'code');
    const preparedDir = join(dir, 'prepared');
    const dataFile = join(dir, 'data.sqlite');
    for (const [name, text] of Object.entries(files)) write(join(codeDir, name), text);
    const tools = (folder: string): string[] =>
      Object.keys(files).flatMap((name) => (name.startsWith(`${folder}/`) ? name.slice(folder.length + 1, -3) : []));
    const definitions = (folder: string): { name: string; input?: JsonSchema }[] =>
      tools(folder).map((name) => {
        const input = schemas[`${folder}/${name}`];
        return input === undefined ? { name } : { name, input };
      });
    const manifest = {
      id,
      name: 'Test',
      version: '1.0.0',
      queries: definitions('queries'),
      actions: definitions('actions'),
    };
    write(join(preparedDir, 'validators.js'), validators ?? compileValidators(manifest));
    const finding =
      this.commons === null || spec.automation != null
        ? null
        : commonsScript(codeDir, manifest, Object.keys(files), new Map());
    if (finding !== null && 'script' in finding) write(join(preparedDir, COMMONS_FILE), JSON.stringify(finding.script));
    const app = new App(this, {
      actorId,
      app: id,
      shownApp: id,
      name: 'Test',
      version: '1.0.0',
      versionId: 'v_20260101T000000000Z_abcdef',
      codeDir,
      preparedDir,
      dataFile,
      migrated: false,
      blobs: { own: join(dir, '_blobs'), live: null },
      supervisorSocket: join(this.dir, 's.sock'),
      writerSocket: join(this.dir, 'w.sock'),
      supervisorTicket: signTicket({ role: 'actor', actorId, app: id }, this.#key),
      writerTicket: signTicket(
        { role: 'database', name: id, file: dataFile, maintain: false, migrated: spec.migrated ?? false },
        this.#key,
      ),
      maxResultBytes: 1024 * 1024,
      egress: { allow: [], deny: [], network: null, port: null },
      automation: null,
      queries: tools('queries'),
      actions: tools('actions'),
      ...spec,
    });
    app.inCommons = finding !== null && 'script' in finding;
    return this.#run(app);
  }

  /** Another actor for files that are stored already. */
  startAgain({ spec }: App): App {
    const actorId = ++this.#lastActor;
    const supervisorTicket = signTicket({ role: 'actor', actorId, app: spec.app }, this.#key);
    return this.#run(new App(this, { ...spec, actorId, supervisorTicket }));
  }

  #run(app: App): App {
    this.#apps.set(app.spec.actorId, app);
    if (app.inCommons) {
      this.commons?.send([Kind.resident, app.spec.actorId, [Kind.start, app.spec]]);
      // Its calls come after that.
      queueMicrotask(() => app.receive([Kind.ready, { pid: 0, threadId: 0 }] as Frame, null));
    } else this.send([Kind.start, app.spec]);
    return app;
  }

  /** Ends all actors at once, even busy ones. */
  async endApps(): Promise<void> {
    for (const app of this.#apps.values()) app.stop(true);
    if (this.commons !== null) await this.startCommons();
    await Promise.all([...this.#apps.values()].map((app) => app.exited));
    this.#apps.clear();
  }

  send(frame: Frame): void {
    this.#hostLink?.send(frame);
  }

  /** Heartbeat of the host. */
  async ping(): Promise<FrameOf<'pong'>[2]> {
    this.send([Kind.ping, 1]);
    const [pong] = (await inTime(once(this.#events, 'host-pong'), 'the answer of the host to a ping')) as [
      FrameOf<'pong'>,
    ];
    return pong[2];
  }

  async killWriter(): Promise<void> {
    this.#writer.kill('SIGKILL');
    await once(this.#writer, 'exit');
  }

  /** Ends the host's control connection, as a dead supervisor would. */
  dropHostLink(): void {
    this.#hostLink?.close();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    for (const child of [this.host, this.#writer]) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.stdin?.end();
      await once(child, 'exit');
    }
    this.#server.close();
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** What waits for it fails, and says why. */
  #hostEnded(how: unknown): void {
    if (this.#isClosing) return;
    const why = `The host ended (${how}).${this.#said === '' ? '' : ` It said:\n${this.#said}`}`;
    for (const app of this.#apps.values()) app.hostEnded(why);
  }

  #fromCommons(frame: Frame, link: Link): void {
    if (frame[0] === Kind.hello) return;
    if (frame[0] === Kind.ready) {
      this.commons = link;
      this.#events.emit('commons-ready');
    } else if (frame[0] === Kind.resident) this.#apps.get(frame[1])?.receive(frame[2] as Frame, null);
    else if (frame[0] === Kind.leaves) this.#apps.get(frame[1])?.leaves(frame[2]);
    else if (frame[0] === Kind.exited) this.#apps.get(frame[1])?.exitedThere({ reason: frame[2], detail: frame[3] });
  }

  #fromHost(frame: Frame, link: Link): void {
    this.#hostLink = link;
    if (frame[0] === Kind.ready) this.#events.emit('host-ready');
    if (frame[0] === Kind.pong) this.#events.emit('host-pong', frame);
    if (frame[0] === Kind.exited) this.#apps.get(frame[1])?.hasExited({ reason: frame[2], detail: frame[3] });
    if (frame[0] === Kind.commonsEnded) {
      this.#events.emit('commons-ended', frame);
      // The test may have ended.
      this.#settleAgain(frame[1]).catch(() => {});
    }
  }
}

/** One actor, and the calls made to it. */
export class App {
  readonly spec: ActorSpec;
  readonly ready: Promise<void>;
  readonly exited: Promise<Exit>;
  readonly logs: LogLine[] = [];
  /** For each log line, the call whose followers get it too. */
  readonly logCalls: (number | undefined)[] = [];
  readonly asks: Ask[] = [];
  /** What the last tracked query told of its result. */
  reads: FrameOf<'reads'> | null = null;
  /** Answers requests of fires; without it, the test takes them from `asks`. */
  onAsk: ((ask: Ask) => void) | null = null;
  readonly #supervisor: FakeSupervisor;
  readonly #events = new EventEmitter();
  readonly #calls = new Map<
    number,
    { frames: Frame[]; resolve: (outcome: Outcome) => void; reject: (error: Error) => void }
  >();
  inCommons = false;
  /** Why it left them. */
  left: OwnReason | null = null;
  /** Frames for its thread, until that is there. */
  #held: Frame[] | null = null;
  #secrets: Frame | null = null;
  #link: Link | null = null;
  #lastCall = 0;
  /** How its host ended. */
  #lost: string | null = null;
  #exit!: (exit: Exit) => void;

  constructor(supervisor: FakeSupervisor, spec: ActorSpec) {
    this.#supervisor = supervisor;
    this.spec = spec;
    this.ready = new Promise((resolve) => {
      this.#events.once('ready', resolve);
    });
    this.exited = new Promise((resolve) => {
      this.#exit = resolve;
    });
  }

  query(tool: string, input?: unknown): Promise<Outcome> {
    return this.call(ToolKind.query, tool, JSON.stringify({ input }));
  }

  action(tool: string, input?: unknown): Promise<Outcome> {
    return this.call(ToolKind.action, tool, JSON.stringify({ input }));
  }

  /** One fire of the automation; members of `request` replace the usual ones. */
  fire(request: Record<string, unknown> = {}, remainingMs?: number): Promise<Outcome> {
    const id = this.spec.automation ?? '';
    const automation = { ref: `${this.spec.app}/${id}`, id, name: 'Test', version: '1.0.0' };
    const body = { runId: `run-${this.#lastCall + 1}`, now: 1000, automation, ...request };
    return this.call(ToolKind.fire, id, JSON.stringify(body), remainingMs);
  }

  /** The `n`th request of fires, past or future. */
  async asked(n: number): Promise<Ask> {
    for (;;) {
      const ask = this.asks[n];
      if (ask) return ask;
      await inTime(once(this.#events, 'ask'), `ask number ${n}`);
    }
  }

  /** Id of the last call, for `cancel`. */
  get lastCall(): number {
    return this.#lastCall;
  }

  call(
    kind: ToolKindValue,
    tool: string,
    body: string,
    remainingMs = 9_999.5,
    caller: HandlerCaller = ADMIN_CALLER,
  ): Promise<Outcome> {
    if (this.#lost !== null) return Promise.reject(new Error(this.#lost));
    const id = ++this.#lastCall;
    if (this.inCommons && kind !== ToolKind.query && kind !== ToolKind.tracked) this.leaves('action');
    const frames: Frame[] = [
      [Kind.caller, 0, CALLER_KINDS.indexOf(caller.kind), callerText(caller)],
      [Kind.dispatch, id, remainingMs, kind, tool, Buffer.from(body), `trace-${id}`, 0],
    ];
    for (const frame of frames) this.#send(frame);
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { frames, resolve, reject });
    });
  }

  /** It goes on in a thread, and its calls run again there. */
  leaves(reason: OwnReason): void {
    if (!this.inCommons) return;
    this.inCommons = false;
    this.left = reason;
    this.#held = [
      ...(this.#secrets === null ? [] : [this.#secrets]),
      ...[...this.#calls.values()].flatMap(({ frames }) => frames),
    ];
    this.#supervisor.commons?.send([Kind.resident, this.spec.actorId, [Kind.stop, this.spec.actorId, true]]);
    this.#supervisor.send([Kind.start, this.spec]);
    this.#events.once('ready', () => {
      const held = this.#held ?? [];
      this.#held = null;
      for (const frame of held) this.#send(frame);
    });
  }

  settleAgain(): void {
    const begun: Frame[] = [[Kind.start, this.spec], ...(this.#secrets === null ? [] : [this.#secrets])];
    for (const frame of [...begun, ...[...this.#calls.values()].flatMap(({ frames }) => frames)]) this.#send(frame);
  }

  #send(frame: Frame): void {
    if (this.inCommons) this.#supervisor.commons?.send([Kind.resident, this.spec.actorId, frame]);
    else if (this.#held !== null) this.#held.push(frame);
    else this.#link?.send(frame);
  }

  /** The secrets of its app from now on. */
  secrets(values: Record<string, string>, unreadable: string[] | null = [], fault = ''): void {
    this.#secrets = [Kind.secrets, Object.entries(values), unreadable, fault];
    this.#send(this.#secrets);
  }

  cancel(id: number, reason: CancelReason): void {
    this.#send([Kind.cancel, id, reason]);
  }

  stop(force = false): void {
    const stop: Frame = [Kind.stop, this.spec.actorId, force];
    if (this.inCommons) this.#send(stop);
    else this.#supervisor.send(stop);
  }

  async ping(): Promise<FrameOf<'pong'>[2]> {
    this.#send([Kind.ping, 7]);
    const [pong] = (await inTime(once(this.#events, 'pong'), 'the answer to a ping')) as [FrameOf<'pong'>];
    return pong[2];
  }

  /** The first log line, past or future, that `matches`. */
  async log(matches: (line: LogLine) => boolean): Promise<LogLine> {
    for (;;) {
      const line = this.logs.find(matches);
      if (line) return line;
      await inTime(once(this.#events, 'log'), `a log line that fits ${matches}`);
    }
  }

  /** Closes the actor's connection, as a dead supervisor would. */
  disconnect(): void {
    this.#link?.close();
  }

  #take(id: number) {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    return call;
  }

  /** In the commons. */
  exitedThere(exit: Exit): void {
    if (this.inCommons) this.hasExited(exit);
  }

  hasExited(exit: Exit): void {
    this.#exit(exit);
  }

  /** Its calls fail, those to come too. */
  hostEnded(why: string): void {
    this.#lost = why;
    for (const { reject } of this.#calls.values()) reject(new Error(why));
    this.#calls.clear();
    this.#exit({ reason: 'crash', detail: why });
  }

  /** `link` is that of its thread; null for the commons. */
  receive(frame: Frame, link: Link | null): void {
    if (link !== null) this.#link = link;
    switch (frame[0]) {
      case Kind.ready:
        this.#events.emit('ready');
        break;
      case Kind.pong:
        this.#events.emit('pong', frame);
        break;
      case Kind.log:
        this.logs.push(JSON.parse(frame[1]) as LogLine);
        this.logCalls.push(frame[2]);
        this.#events.emit('log');
        break;
      case Kind.reads:
        this.reads = frame;
        break;
      case Kind.ask: {
        const [, askId, callId, verb, payload] = frame;
        const send = (ok: boolean, value: unknown): void => {
          const text = value === undefined ? '' : JSON.stringify(value);
          this.#link?.send([Kind.answer, askId, ok, Buffer.from(text)]);
        };
        const ask: Ask = {
          verb,
          callId,
          payload: JSON.parse(Buffer.from(payload).toString()),
          answer: (value) => send(true, value),
          refuse: (error) => send(false, error),
        };
        this.asks.push(ask);
        this.onAsk?.(ask);
        this.#events.emit('ask');
        break;
      }
      case Kind.result: {
        const value: unknown = JSON.parse(Buffer.from(frame[3]).toString());
        this.#take(frame[1])?.resolve({ status: frame[2], value, handlerMs: frame[4] });
        break;
      }
      case Kind.error:
        this.#take(frame[1])?.reject(new CallFailed(frame[2]));
        break;
    }
  }
}

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
