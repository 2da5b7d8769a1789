/**
 * Makes the start parameters of each process and thread of the tree: its program and flags, the sockets, and the signed tickets
 * for them.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { agentsEnvironment, type ToolServerSettings } from '../../protocol/agents/tool-server-entries.ts';
import type { SvcError } from '../../protocol/errors.ts';
import { appOfKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { ActorSpec, EarlierClients, OwnedBucket } from '../../protocol/wire/frames.ts';
import { hostFlags, jobsFlags, OWN_LIBRARIES, OWN_PROCESS } from '../../protocol/wire/host-flags.ts';
import { signTicket, type Ticket } from '../../protocol/wire/ticket.ts';
import { type Damage, isMigrated } from '../../storage/apps/app-data.ts';
import type { KeepBlob } from '../blobs.ts';
import { type Config, egressOf } from '../config.ts';
import type { GivenSecrets } from '../secrets.ts';
import type { Simulation } from '../simulation.ts';
import type { ChildSpec } from './child.ts';
import { entryPoint, ownReadable, withRealPaths } from './entry-points.ts';
import { threadsBeforeShort } from './places.ts';

/** What the processes tell, and ask of, the rest of the gateway. An `app` is the key of an app or draft. */
export type TreeCallbacks = {
  /** The secrets of an app, for its threads; null for none. */
  secrets(app: string): GivenSecrets | null;
  /** Stores or deletes a file of an app, as one of its threads asks with a frame `blob`. */
  keepBlob: KeepBlob;
  /** A call of the app, of this name, sends a notice, see `GenerationEvents`. */
  notice(app: string, name: string, payload: Uint8Array): Promise<{ ok: boolean; body: Uint8Array }>;
  appLog(app: string, line: string): void;
  /** A call of the app met damaged data. Resolves with the error for its caller. */
  onDamaged(app: string, damage: Damage): Promise<SvcError>;
  /**
   * Null when everything that the app can have read may be shown; always so without a log of pages. Else it resolves when that is so,
   * or rejects with `STORAGE_UNAVAILABLE`. All answers in one `receivedPiece` share a look at the database.
   */
  unsettled(app: string, piece?: number): Promise<void> | null;
  /** A thread of the app runs. Not of automations, whose runs fail. */
  onStarted(app: string): void;
  /** The app is given up, `why` and how its thread ended last. Not of automations. */
  onGaveUp(app: string, why: string, lastExit: string | null): void;
  /** A commit, see the frame. It is not acknowledged yet. */
  onCommitted(app: string, before: Uint8Array | null, after: Uint8Array | null, tables: string[] | null): void;
  /** The writer died: what the app had asked of it may be stored or not. */
  onWriterLost(app: string): void;
  /** A writer replaced the file of a database, see the frame. */
  onReplaced(app: string): void;
  /** A process started or ended: what the next gateway has to know should this one be killed. */
  onProcess(pid: number, role: string, alive: boolean): void;
  /** The writer cannot be kept running: the daemon must end. */
  onFatal(reason: string): void;
};

/** The gateway's parameters for the supervision tree. */
export type TreeOptions = {
  config: Config;
  paths(
    app: string,
    versionId: string,
  ): { codeDir: string; preparedDir: string; dataFile: string; blobs: ActorSpec['blobs'] };
  /** The log of a cluster in which the writers keep all databases; null for a gateway of its own. */
  pageLog: PageLog | null;
  /** The folders that handler hosts may read; all of them exist when the tree starts. */
  codeDirs: string[];
  /** Empty and for this user alone; removed at the end. */
  socketFolder: string;
  /** The port that the gateway is reached at; null where it is not known, such as inside a host's own server. */
  gatewayPort(): number | null;
  /** Only of a gateway that tests an app. */
  simulation?: Simulation | undefined;
  log(level: 'debug' | 'info' | 'warn' | 'error', message: string, app?: string): void;
  callbacks: TreeCallbacks;
};

/** A log of pages: the addresses of its database, and the name that owns buckets in it. */
export type PageLog = { urls: string[]; node: string };

/** What the agents process is told when it starts. */
export type AgentProcessSettings = {
  /** Asked for at each start: what an earlier process left behind has another one. */
  tag: () => string;
  /** Agents at a time. */
  maxAgents: number;
  /** The MCP servers that automations may call. */
  toolServers: ToolServerSettings;
};

/** Which databases a writer writes, and what it takes over. */
type WriterPlace = {
  name: string;
  /** The one file; null for all that are not in `elsewhere`. */
  only: string | null;
  /** File → the socket of its writer. */
  elsewhere(): Record<string, string>;
  before(): EarlierClients;
  /** The buckets of a log of pages that it may write. */
  owned(): OwnedBucket[];
};

export class Specifications {
  /** Tickets are signed with it; a new one for each boot. */
  readonly key = randomBytes(32);
  readonly supervisorSocket: string;
  readonly #options: TreeOptions;
  #nextActorId = 0;

  constructor(options: TreeOptions) {
    this.#options = options;
    this.supervisorSocket = join(options.socketFolder, 'supervisor');
  }

  ticket(ticket: Ticket): string {
    return signTicket(ticket, this.key);
  }

  /** Where the process of this name listens. */
  socket(name: string): string {
    return join(this.#options.socketFolder, name);
  }

  writer({ name, only, elsewhere, before, owned }: WriterPlace): ChildSpec {
    const { config, pageLog } = this.#options;
    const bootstrap = () => ({
      writerSocket: this.socket(name),
      watchTicket: this.ticket({ role: 'writer-watch', name }),
      key: this.key.toString('hex'),
      durability: config.durability,
      only,
      elsewhere: elsewhere(),
      before: before(),
      ...(pageLog === null ? {} : { pageLog: { ...pageLog, owned: owned() } }),
    });
    return this.#process(name, { role: 'writer', name }, { flushes: true }, bootstrap);
  }

  /** `shared` by several actors: one that does not come up is then tried again for ever. */
  host(name: string, shared: boolean): ChildSpec {
    const { config, codeDirs, simulation } = this.#options;
    const { actorMemoryMb } = config;
    const shortOfMemory = threadsBeforeShort(config);
    // The host of a test lives for one or two apps' threads.
    const spare = simulation === undefined ? {} : { spare: 'once' };
    const flags = hostFlags([...OWN_PROCESS, ...ownReadable(), ...withRealPaths(codeDirs)]);
    const bootstrap = () => ({ actorMemoryMb, shortOfMemory, ...spare });
    return this.#process(name, { role: 'host', host: name }, { flags, patient: shared }, bootstrap);
  }

  /** The process of the agents, which also has the clients of MCP servers. */
  agents({ tag, maxAgents, toolServers }: AgentProcessSettings): ChildSpec {
    const flags = [`--max-old-space-size=${LIMITS.agentsMemoryMb}`];
    const env = agentsEnvironment(process.env);
    const bootstrap = () => ({ tag: tag(), maxAgents, idleMs: LIMITS.agentIdleMs, toolServers });
    return this.#process('agents', { role: 'agents' }, { flags, env }, bootstrap);
  }

  /** The jobs process. Beside our own code it may read and write these folders and files. */
  jobs({ readable, writable }: { readable: string[]; writable: string[] }): ChildSpec {
    const flags = jobsFlags({ readable: [OWN_LIBRARIES, ...ownReadable(), ...readable], writable });
    const { jobsMemoryMb: memoryMb, jobMemoryMb: threadMemoryMb } = LIMITS;
    const bootstrap = () => ({ thread: entryPoint('job'), threadMemoryMb, memoryMb });
    return this.#process('jobs', { role: 'jobs' }, { flags, memoryMb }, bootstrap);
  }

  /** A process that runs SQL of callers. It reads what handler hosts read, and writes through the writer only. */
  sql(name: string): ChildSpec {
    const readable = [OWN_LIBRARIES, ...ownReadable(), ...withRealPaths(this.#options.codeDirs)];
    return this.#process(name, { role: 'sql', name }, { flags: jobsFlags({ readable, writable: [] }) }, () => ({}));
  }

  /** A thread, with a new number. That of an automation has no database. `writers` know where a file's writer is. */
  thread(
    { app, automation }: { app: string; automation: string | null },
    summary: VersionSummary,
    writers: { socketOf(file: string): string },
  ): ActorSpec {
    const actorId = ++this.#nextActorId;
    const paths = this.#options.paths(app, summary.versionId);
    const { config, simulation } = this.#options;
    const migrated = isMigrated(app, summary);
    const reach = { ...egressOf(config), network: summary.network ?? null, port: this.#options.gatewayPort() };
    return {
      actorId,
      app,
      shownApp: appOfKey(app),
      name: summary.name,
      version: summary.version,
      versionId: summary.versionId,
      ...paths,
      migrated,
      supervisorSocket: this.supervisorSocket,
      writerSocket: automation === null ? writers.socketOf(paths.dataFile) : '',
      supervisorTicket: this.ticket({ role: 'actor', actorId, app }),
      writerTicket:
        automation === null
          ? this.ticket({ role: 'database', name: app, file: paths.dataFile, maintain: false, migrated, brief: true })
          : '',
      maxResultBytes: config.maxResultBytes,
      egress: simulation === undefined ? reach : { ...reach, relay: simulation.relay },
      automation,
      queries: summary.queries.map((tool) => tool.name),
      actions: summary.actions.map((tool) => tool.name),
    };
  }

  #process(
    name: string,
    ticket: Ticket & { role: ChildSpec['role'] },
    more: Partial<ChildSpec>,
    bootstrap: () => object,
  ): ChildSpec {
    const { supervisorSocket } = this;
    const { role } = ticket;
    const allBootstrap = () => ({ supervisorSocket, ticket: this.ticket(ticket), ...bootstrap() });
    return { name, role, entry: entryPoint(role), ...more, bootstrap: allBootstrap };
  }
}
