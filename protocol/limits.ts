/**
 * Every limit of the gateway, with its default, in one place.
 * Sizes are bytes, times milliseconds, unless the name says otherwise. Source: the specification's "Limits" table and
 * sections 1–5 of the decisions; the others are ours and stand here so that no queue, map, buffer or wait is unbounded.
 */

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** What an operator may change in the configuration file; the values here are the defaults. */
export const DEFAULTS = {
  host: '127.0.0.1',
  port: 8787,
  versionRetention: 5,
  commitAuthor: { name: 'svc', email: 'svc@localhost' },
  maxLiveActors: 64,
  actorMemoryMb: 128,
  actorIdleMs: 5 * MINUTE,
  queryTimeoutMs: 10 * SECOND,
  actionTimeoutMs: 30 * SECOND,
  automationTimeoutMs: 5 * MINUTE,
  mailboxLimit: 1024,
  maxResultBytes: 8 * MiB,
  trashDays: 7,
} as const;

export const LIMITS = {
  /** Smallest value `versionRetention` may take. */
  minVersionRetention: 2,
  /** Versions of an app in one answer, on the git store; `?before=` lists the others. */
  versionsListed: 1000,

  /** Any body that a route reads, except uploads. */
  requestBodyBytes: 1 * MiB,
  /** Values in the body of a request: 1 MiB of the smallest ones would hold the event loop for 100 ms. */
  jsonValues: 50_000,
  /** A larger call of a tool is parsed by the app's thread only, so `jsonValues` is no limit for it. */
  callParsedBytes: 64 * KiB,
  /** An upload as it travels, compressed. The archive rules below are what really bounds it. */
  uploadBodyBytes: 64 * MiB,
  archiveTotalBytes: 50 * MiB,
  archiveFileBytes: 5 * MiB,
  archiveEntries: 5000,
  archiveNameBytes: 255,
  /** Metadata of one entry (long names, extended attributes). */
  archiveMetaBytes: 64 * KiB,
  /** What one entry may take in the inflated archive besides its content: headers and padding. */
  archiveOverheadBytes: 4 * KiB,
  manifestBytes: 1 * MiB,
  /** How deep arrays and objects of a manifest, its schemas included, may nest. */
  manifestDepth: 64,
  /** Hosts that an app's manifest may name. */
  networkHosts: 100,
  /** Parsing and checking all handlers of an app, when it is published. */
  handlerCheckMs: 20 * SECOND,
  /** One schema of a tool or automation, as JSON; each `$id`, `$ref` and the like in it. */
  schemaBytes: 128 * KiB,
  schemaNameChars: 2048,
  /** Compiling all schemas of a version and checking the simplest inputs against them, when it is stored; the latter of one. */
  schemasMs: 5 * SECOND,
  schemaProbeMs: 1 * SECOND,
  /** Static files below this size are not compressed. */
  compressBytes: 1 * KiB,

  /** Threads of the jobs process: for uploads and the like, for drafts, for backups and bundles. One app has half of each, one at least. */
  jobThreads: 2,
  jobThreadsOfDrafts: 1,
  jobThreadsForLong: 1,
  /** From the start of a job, not from its order. */
  jobMs: 2 * MINUTE,
  /** A thread that has read its modules once does a job in a fraction of the time; who edits an app is back within this. */
  jobIdleMs: 1 * MINUTE,
  /** Heap of one job thread; all memory of the process with its threads, and how often it looks at that and at slow steps. */
  jobMemoryMb: 512,
  jobsMemoryMb: 2048,
  jobsLookMs: 50,
  /** Jobs that may wait for a thread; one app has half of these places. */
  jobQueue: 64,
  /** Header section of a request: all names and values together. */
  headerBytes: 16 * KiB,
  headerCount: 100,
  urlBytes: 8 * KiB,
  /** A request must have arrived whole within this time. */
  requestTimeoutMs: 30 * SECOND,
  /** An upload may take longer: it is allowed this for its whole body. */
  uploadTimeoutMs: 5 * MINUTE,
  /** Bodies of all requests that are not answered yet, together; one that does not fit is answered `OVERLOADED`. */
  bodiesBytes: 256 * MiB,
  /** Large answers that their readers have not taken, together; over it, the reader that took nothing for longest is cut off. */
  answersBytes: 256 * MiB,
  /** A connection that waits for its next request is kept this long (node edge); its answers say so. */
  keepAliveMs: 1 * MINUTE,
  /** The same on the uws edge: its native code ends such connections after 8 to 12 s, which cannot be changed. */
  uwsKeepAliveMs: 7 * SECOND,
  /** Connections open at once. Fewer where the process may not have that many files open. */
  connections: 24_000,
  /** File descriptors that connections leave to the rest of the supervisor; half of all where there are few. */
  descriptorReserve: 1024,
  /** Kept open by the uws edge, to be let go when connections took all the others before it could look. */
  spareDescriptors: 64,
  /** How often the uws edge looks how many descriptors are left; the other value when they run short. */
  descriptorCheckMs: 100,
  descriptorShortMs: 5,
  /** How often the node edge looks for connections whose request did not arrive in time. */
  connectionCheckMs: 2 * SECOND,
  /** Requests of one connection that wait for their answers (node edge); one more is refused and ends it. */
  pipelinedRequests: 64,
  /** A client that takes nothing of a waiting answer or event stream for this long is cut off. */
  stalledReaderMs: 30 * SECOND,
  /** How long the rest of a refused body is read and thrown away, so that its sender gets to read the answer. */
  lingerMs: 2 * SECOND,

  toolTimeoutMs: 600 * SECOND,
  /** Issues listed in an `INVALID_INPUT` answer. */
  inputIssues: 20,
  idempotencyMs: 24 * HOUR,
  idempotencyKeyBytes: 255,

  /** A frame between two of our processes; a result plus its envelope must fit. */
  frameBytes: 72 * MiB,
  /** Bytes waiting to be written to one peer before it counts as stuck. */
  linkBacklogBytes: 128 * MiB,
  /** Frames that leave in one write. */
  linkBatchFrames: 16,
  /** Waiting frames of this size together leave at once. */
  linkBatchBytes: 64 * KiB,
  /** Time a new connection has to say `hello`. */
  helloMs: 5 * SECOND,

  /** New objects of one actor's heap, in MiB: small, because thousands of short calls leave little behind. */
  actorYoungMb: 6,
  /** How often a handler host looks at its memory, while it has actors. */
  memoryLookMs: 50,
  /** Calls one actor works on at a time; the others wait in its mailbox. */
  actorConcurrency: 64,
  /** Results that one actor works on at a time, as far as the size of the last ones tells: with large ones it gets fewer calls. */
  actorResultsBytes: 32 * MiB,
  /** Statement text of one call to `db`. */
  sqlBytes: 100 * KiB,
  batchStatements: 10_000,
  readRows: 100_000,
  readBytes: 64 * MiB,
  /** How long `db.transaction()` may hold the app's write lane. */
  leaseMs: 5 * SECOND,
  /** A statement that keeps the writer busy this long ends with the writer being replaced. */
  writerStuckMs: 5 * SECOND,
  /** Apps that may have a writer of their own, after they kept the one for all busy. */
  ownWriters: 4,
  /** Connections to a writer of which it is known how far they came, should it be replaced; those of the last `handoverMs` count. */
  writerSessions: 2048,
  /** How long that is kept. Longer than any client looks for the writer that takes over. */
  handoverMs: 1 * MINUTE,
  /** Prepared statements kept per connection. */
  statementCache: 200,
  /** Statements that may wait in one lane. */
  laneQueue: 20_000,
  /** Statements in one group commit. */
  groupCommit: 1000,
  /** A group that has taken this long is committed before its next statement. */
  groupMs: 50,
  /** How often a client looks for a writer that is being replaced. */
  writerRetryMs: 50,
  /** How often a statement of the gateway's own is repeated after the writer died with it. */
  writerLostTries: 3,
  /** How long the writer waits for a lock that a program outside the gateway holds; all lanes wait with it. */
  writerBusyMs: 250,
  /** How long a read waits for such a lock. */
  readBusyMs: 1 * SECOND,
  /** WAL pages not yet in the database file after which they are copied there, in a thread of their own. */
  checkpointPages: 1000,
  /** WAL pages after which the writer itself finishes a checkpoint, so that the file starts over. */
  walPages: 8000,
  /** A longer log is cut to this when it starts over. */
  walBytes: 64 * MiB,
  /** How long the end of a migration waits for readers before it leaves its log as long as it is. */
  truncateLogMs: 1 * SECOND,
  /** Commits after which the size of the log is looked at again; also whenever a lane has nothing to do. */
  checkpointCommits: 32,
  /** Page cache of one open database. */
  databaseCacheBytes: 2 * MiB,
  /** Databases the writer keeps open. */
  openDatabases: 128,
  /** A database that nobody is connected to is closed after this time. */
  databaseIdleMs: 30 * SECOND,

  /** Ad-hoc SQL from the command line: rows and time. */
  sqlRows: 200,
  sqlMs: 2 * SECOND,

  /** After so long, work on many apps lets the supervisor's event loop go on. */
  turnMs: 5,
  heartbeatMs: 1 * SECOND,
  /** How often the delay of the supervisor's event loop is sampled. */
  eventLoopSampleMs: 10,
  /** No answer to heartbeats for this long: the process is killed and replaced. */
  heartbeatDeadMs: 10 * SECOND,
  /** After a deadline passed, an actor has this long to answer a ping before its thread is ended. */
  cancelGraceMs: 1 * SECOND,
  /** A call that still runs this long after its deadline has its thread replaced, even if the thread's event loop answers. */
  overdueMs: 5 * SECOND,
  /** A thread that was told to end and has not by then takes its host process down. */
  terminateMs: 2 * SECOND,
  /** Actors that one host starts at a time; the others wait, and their time to start has not begun. */
  startsAtOnce: 8,
  /** Starting an actor, from the order to `ready`. */
  actorStartMs: 10 * SECOND,
  childStartMs: 15 * SECOND,
  /** A handler host starts the thread that it keeps in reserve once no actor has been started for this long. */
  spareDelayMs: 250,
  drainMs: 10 * SECOND,
  restartIntensity: 5,
  restartWindowMs: 30 * SECOND,
  restartBackoffMs: 100,
  restartBackoffMaxMs: 5 * SECOND,
  /** Tries to start an actor before it is `failed_to_start`. */
  startTries: 3,
  /** Calls remembered per app as having taken its actor down. */
  poisonCalls: 32,

  /**
   * Harm that an app may do to others within `harmWindowMs` before it is quarantined: the writer had to be replaced because
   * of a statement of its, or a host that others share because of a thread of its that could not be ended.
   */
  harmTimes: 2,
  harmWindowMs: 10 * MINUTE,

  changeRing: 1024,
  changeHeartbeatMs: 15 * SECOND,
  changeRetryMs: 2 * SECOND,
  /** Bytes waiting for one subscriber before its backlog is folded into one `reset`. */
  subscriberBacklogBytes: 256 * KiB,
  /** Shared by the subscribers that have something waiting: the more there are, the less each may have. */
  backlogsBytes: 64 * MiB,
  /** Event streams open at once, over all apps. */
  subscribers: 20_000,
  /** All rings together; over it, the ring of the app that has been quiet longest is emptied. */
  changeRingsBytes: 64 * MiB,

  /** Bytes of static files kept in memory, over all apps. */
  staticCacheBytes: 64 * MiB,
  /** Lists of static files kept in memory, over all versions, as bytes of their JSON and headers. */
  staticIndexBytes: 32 * MiB,

  /** Manifests kept in memory, as characters of their text. */
  manifestCacheChars: 8 * MiB,

  logFileBytes: 5 * MiB,
  logLineBytes: 64 * KiB,
  /** Characters of a handler's error message that its caller sees. */
  errorMessageChars: 4096,
  /** Log bytes an app, and the gateway itself, may have waiting before lines are dropped and counted. */
  logBacklogBytes: 1 * MiB,
  /** Lines are collected this long and written together. */
  logFlushMs: 50,
  /** How soon standard error is tried again that did not take the gateway's own log, of which `logBacklogBytes` wait. */
  logRetryMs: 100,
  /** At the end, how long a slow reader may take for what waits. */
  logDrainMs: 500,

  sessionMs: 12 * HOUR,
  /** Ids of removed apps that are remembered, so that the next app of that id starts with an empty browser. */
  removedIds: 10_000,
  /** Other apps whose tools the pages of one may call. */
  usedApps: 100,
  /** How long a one-time ticket from the console to a page's origin is good. */
  ticketMs: 30 * SECOND,
  /** How long a one-time link that signs in at the console is good. */
  linkMs: 10 * MINUTE,
  /** Tickets, and links, that nobody has used yet; the oldest make room. */
  ticketsWaiting: 10_000,
  /** Host names that are remembered with what they stand for. */
  hostNames: 1_000,
  /** Digests of presented tokens that are remembered. */
  tokenDigests: 64,
  /** How often the token file is read again, in case the file watcher missed a rotation. */
  tokenPollMs: 5 * SECOND,
  /** Tokens for programs: how many, the apps that one may name, the characters of its name, and the days that it may last. */
  programTokens: 1000,
  programTokenApps: 100,
  programTokenNameChars: 100,
  programTokenDays: 3650,
  /** When tokens for programs were last used is stored this long after it was seen; and a clock that was set is noticed. */
  programTokenNoteMs: 1 * MINUTE,
  /** Stored tokens that could not be read are tried again after this. */
  programTokenRetryMs: 5 * SECOND,
  settingsBytes: 64 * KiB,
  /** Copies of an app's data that are kept from before its migrations. */
  backups: 3,
  /** Content of one backup: files, all together; the manifest, of which a file takes some 150 bytes. */
  backupBytes: 256 * GiB,
  backupFiles: 500_000,
  backupManifestBytes: 128 * MiB,
  /** Packing one app: its code and a copy of its data. */
  backupPartMs: 1 * HOUR,
  /** How long the gateway holds a finished backup for a reader that takes none of it. */
  backupStallMs: 1 * MINUTE,
  /** How long the command line waits for the gateway to make a backup. */
  backupWaitMs: 12 * HOUR,
  /** Free disk below which `doctor` warns. */
  lowDiskBytes: 512 * MiB,

  /** Largest value `automationTimeoutMs` may take. */
  automationTimeoutMaxMs: 1 * HOUR,
  /** The text of one `automation.json`. */
  automationBytes: 64 * KiB,
  /** The same as it stands in a stored version: we wrote switches and addresses of webhooks into it. */
  automationStoredBytes: 128 * KiB,
  /** Triggers of one automation, and characters of a cron expression or time zone. */
  automationTriggers: 10,
  cronChars: 256,
  /** Automations of one app. */
  automations: 1000,
  /** Files of automations that are read at a time, over all apps. */
  automationsAtOnce: 16,
  /** Threads of automations, working or kept for the next fire; counted apart from the apps'. */
  fireThreads: 32,
  /** Of these, those of one app: what hangs in one leaves places for the others. */
  fireThreadsOfApp: 24,
  /** A fire's thread that has nothing to do is kept this long for the next one. */
  fireIdleMs: 30 * SECOND,
  /** Runs of one automation that may wait for the one before them. */
  runsWaiting: 100,
  /** What is stored of arguments, inputs and outputs; the rest is cut and a marker says so. */
  runValueBytes: 64 * KiB,
  /** Arguments and outputs of one run's nodes, together; those that come later are cut at the smaller value. */
  runNodesBytes: 8 * MiB,
  runValueLeftBytes: 512,
  /** A larger input or output is shown in lists as its beginning only. */
  runListedBytes: 2 * KiB,
  runSummaryChars: 4096,
  /** Runs that leave the history at the end of one run, and at a time when their app is removed. */
  runsDropped: 500,
  /** Calls of `ctx.tool` and `ctx.agent` in one run; and all that its `ctx` asks for at a time, further ones wait in the thread. */
  runNodes: 10_000,
  runNodesAtOnce: 64,
  /** How deep JSON may nest that a request holds, or that an automation hands over, gets or returns. */
  jsonDepth: 1000,
  /** What a fire hands to one function of its `ctx`, as JSON. */
  askBytes: 1 * MiB,
  /** One value in `ctx.state`, and the keys of one automation. */
  stateValueBytes: 256 * KiB,
  stateKeys: 1000,
  stateKeyBytes: 255,
  /** `onFailure` fires of fires of fires. */
  failureDepth: 3,
  /** What a handler may return: its summary and output, as JSON. */
  fireResultBytes: 1 * MiB,
  /** Text of one answer of an agent. */
  agentTextChars: 1 * MiB,
  /** The end of a run that could not be stored is tried so often in all, each time after this wait. */
  runEndTries: 3,
  runEndWaitMs: 1 * SECOND,
  /** While many runs are under way, what one of them has to store waits this long at most for others. */
  runGatherMs: 4,
  /** Until the summary of a run that ended is written, with those of others. */
  runSummaryMs: 100,
  /** Events kept of a run under way, for those who begin to follow it later. */
  runEvents: 1000,
  runEventsBytes: 4 * MiB,
  /** Rows of a list that can grow: by default, and at most. */
  listRows: 50,
  listRowsMax: 500,

  /** A cron fire that is noticed later than this was missed. */
  cronLateMs: 1 * MINUTE,
  /** The longest wait of the scheduler's one timer, so that a clock that was set is noticed. */
  cronWaitMs: 1 * MINUTE,
  /** Times already fired that lie further ahead than this come of a clock that was wrong, and may come again. */
  cronBackMs: DAY,
  /** What the scheduler does in one turn of the event loop: fires and next times together, and how long. */
  cronTurn: 100,
  cronTurnMs: 10,
  /** Cron expressions that are kept ready, each with its time zone; they take some 3 KiB. */
  cronCache: 2000,
  /** Questions of the scheduler under way at its start: when did this automation fire last? */
  cronLookups: 16,

  webhookBodyBytes: 64 * KiB,
  /** Fires of one webhook in one window. */
  webhookFires: 60,
  webhookWindowMs: 1 * MINUTE,
  /** Wrong secrets for one webhook in one window. */
  webhookFailures: 30,
  /** Bodies of one signed webhook that are read before it is known who sends them; over it, the slowest is cut off. */
  webhookUnverified: 64,
  /** Their bytes together, apart from `bodiesBytes`. */
  webhookUnverifiedBytes: 1 * MiB,
  /** Until then a body is not slow: its sender may be far away. */
  webhookYoungMs: 1 * SECOND,
  /** How far the time of a signed webhook may be off. */
  webhookToleranceMs: 5 * MINUTE,

  /** Starting an MCP server and agreeing on the protocol with it. */
  toolServerStartMs: 30 * SECOND,
  /** An answer of an MCP server. */
  toolServerAnswerBytes: 8 * MiB,
  /** Waits between attempts to reach an MCP server: the first, and the longest. */
  toolServerBackoffMs: 500,
  toolServerBackoffMaxMs: 30 * SECOND,
  /** Calls to MCP servers under way at once, all servers together. */
  toolServerCalls: 1024,
  /** An MCP server whose input was closed has this long to end by itself before it is told to, and `terminateMs` after that. */
  toolServerEndMs: 500,
  /** Heap of the process that talks to MCP servers, in MiB. */
  toolServersMemoryMb: 512,
  /** What is kept of the standard error of an MCP server: its end. */
  toolServerStderrBytes: 4 * KiB,

  /** Sessions that may be open. */
  sessions: 1000,
  /** A session that nobody touched for this long is shown by `svc doctor`; it is never deleted by itself. */
  sessionStaleMs: 30 * DAY,
  /** Short texts in requests, such as names. */
  textChars: 500,
  commitMessageChars: 10_000,
  /** A remote catalog of templates: its size, what of it is taken, and each template's archive. */
  templateCatalogBytes: 1 * MiB,
  templates: 500,
  templateArchiveBytes: 16 * MiB,
  templateFetchMs: 20 * SECOND,

  /** How often it is looked whether a disk that was full at the start has room. */
  diskRetryMs: 5 * SECOND,
  /** What a new data directory needs to begin with. */
  firstStartBytes: 1 * MiB,
  /** An app's database that is read as a whole while the disk has no room for the index of its log. */
  databaseSnapshotBytes: 16 * MiB,

  /** How long a name of the git repository is waited for that a git program changes; its lock that is older was left by a crash. */
  gitLockMs: 10 * SECOND,
  gitLockLeftMs: 5 * SECOND,
  gitLockPollMs: 20,
  /** From how many loose objects on the git repository's are packed, and after how many changes of apps that is looked at. */
  gitLooseObjects: 2000,
  gitPackEvery: 20,
  /** One pack of loose objects; a larger object stays loose. */
  gitPackObjects: 4096,
  gitPackBytes: 16 * MiB,
  gitPackedObjectBytes: 16 * MiB,
  /** As many small packs become one, of at most this size: small are those of an eighth of it. */
  gitJoinedPacks: 8,
  gitJoinedPackBytes: 32 * MiB,
  /** A pack that is older is marked as used when an object is needed that it may hold. */
  gitPackUsedMs: DAY,
  /** Packs of the git repository that a job thread keeps in memory for its next job; over it they are read anew. */
  gitPackCacheBytes: 64 * MiB,
  gitBundleBytes: 1 * GiB,
  /** One object of a bundle that is imported, and all of them, inflated. */
  gitObjectBytes: 16 * MiB,
  gitBundleInflatedBytes: 32 * GiB,
  /** Writing or reading a bundle. */
  gitBundleMs: 15 * MINUTE,
  /** Merging one file: lines in which a side differs from the base, and time; over it, both sides meet as a whole. */
  gitMergeEdits: 5000,
  gitMergeMs: 2 * SECOND,
  /** Lines of both versions of a file, over which it has no patch: most of the time goes into them, whatever differs. */
  gitDiffLines: 200_000,
  /** Lines that differ, and time, after which the patch of one file replaces it as a whole. */
  gitDiffEdits: 2000,
  gitDiffMs: 1 * SECOND,
  /** All patches of one diff; files that come after have none. */
  gitDiffBytes: 4 * MiB,
  gitDiffsMs: 10 * SECOND,

  /** Drafts with a running thread at a time, besides `maxLiveActors`. */
  draftThreads: 16,
  /** A draft that nobody looked at for this long is watched no more: its files are then looked at when it is next used. */
  draftIdleMs: 15 * MINUTE,
  /** How often it is looked which drafts are used no more. */
  draftTidyMs: 1 * MINUTE,
  /** What is edited in this time becomes one change of the draft. */
  draftSettleMs: 25,
  /** Folders that are watched: of one draft, and of all together. One with more of them is looked at whenever it is used. */
  draftFolders: 500,
  watchedFolders: 4000,
  /** Copying live data for a draft. */
  draftSeedMs: 10 * MINUTE,
  dayMs: DAY,
} as const;
