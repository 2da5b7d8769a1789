/**
 * Every limit of the gateway, with its default, in one place.
 * Sizes are bytes, times milliseconds, unless the name says otherwise. No queue, map, buffer or wait is unbounded
 * (specification, "Limits").
 */
import { PAGE_ROWS } from './http/list-pages.ts';

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
  actorMemoryMb: 128,
  actorIdleMs: 5 * MINUTE,
  queryTimeoutMs: 10 * SECOND,
  actionTimeoutMs: 30 * SECOND,
  automationTimeoutMs: 5 * MINUTE,
  mailboxLimit: 1024,
  maxResultBytes: 8 * MiB,
  trashDays: 7,
  backups: { keep: 7, dir: 'backups' }, // of those on schedule; the folder is in the data directory
  maxAgents: 8,
  signIn: { passkeys: true, passwords: true },
  publicLimits: { reads: 60, writes: 10 }, // of one address in `visitorWindowMs`
  logFile: { maxMb: 10, keep: 5 }, // size of the gateway's log file, and how many older ones stay
} as const;

export const LIMITS = {
  visitorWindowMs: 1 * MINUTE, // what visitors of public apps are counted in
  visitorAddresses: 50_000, // that are counted at a time: some 5 MiB; more of them push out the oldest
  visitorBodiesBytes: 32 * MiB, // bodies of all visitors at once, so that those with a token have room

  minVersionRetention: 2, // smallest value `versionRetention` may take
  versionsListed: 1000, // versions of an app in one answer, on the git store; `?before=` lists the others

  requestBodyBytes: 1 * MiB, // any body that a route reads, except uploads
  jsonValues: 50_000, // of a body; 1 MiB of the smallest values would hold the event loop for 100 ms
  callParsedBytes: 64 * KiB, // a larger call is parsed by the app's thread only, without `jsonValues`
  uploadBodyBytes: 64 * MiB, // an upload as it travels, compressed. The archive rules below are what really bounds it
  archiveTotalBytes: 50 * MiB,
  archiveFileBytes: 5 * MiB,
  archiveEntries: 5000, // files and folders, also those that are only in the path of another
  archiveDepth: 64, // names in the path of one
  archiveNameBytes: 255,
  archiveMetaBytes: 64 * KiB, // metadata of one entry (long names, extended attributes)
  archiveOverheadBytes: 4 * KiB, // what an entry takes besides its content: headers and padding
  manifestBytes: 1 * MiB,
  manifestDepth: 64, // how deep arrays and objects of a manifest, its schemas included, may nest
  networkHosts: 100, // hosts that an app's manifest may name
  damageReadBytes: 64 * MiB, // of a database, and of its log, that are read to tell a failing disk from damage
  diskFaultMs: 10 * SECOND, // for this long after a read that the disk refused, damage that SQLite reports counts as a fault of the disk
  bundleBytes: 5 * MiB, // what one import of a package leads to, as JavaScript
  pageInputBytes: 20 * MiB, // all files that a page with a build imports
  pageBytes: 5 * MiB, // the script that they are built into, and the styles
  pageBuildMs: 30 * SECOND, // building a page
  handlerCheckMs: 20 * SECOND, // parsing and checking all handlers of an app, when it is published
  schemaBytes: 128 * KiB, // one schema of a tool or automation, as JSON; each `$id`, `$ref` and the like in it
  schemaNameChars: 2048,
  schemasMs: 5 * SECOND, // compiling the schemas of a version and checking the simplest inputs
  schemaProbeMs: 1 * SECOND, // checking them against one schema
  compressBytes: 1 * KiB, // static files below this size are not compressed
  iconBytes: 256 * KiB, // an `icon.svg` that PNGs are drawn from
  iconMs: 2 * SECOND, // drawing all of them, which takes a tenth of a second at most for what people draw
  iconMemoryMb: 128, // meanwhile

  jobThreads: 2, // for uploads and the like; one app has half of each kind, at least one
  jobThreadsOfDrafts: 1,
  jobThreadsForLong: 1, // for backups and bundles
  jobMs: 2 * MINUTE, // from the start of a job, not from its order
  jobWaitMs: 10 * MINUTE, // from its order to that start, a second start after the end of its process included
  jobIdleMs: 1 * MINUTE, // a thread that has read its modules does the next job in a fraction of the time
  jobMemoryMb: 512, // heap of one job thread
  jobsMemoryMb: 2048, // all memory of the process
  jobsLookMs: 50, // how often it checks its memory and its slow steps
  flushesAtOnce: 2, // of what jobs wrote, by the supervisor: half of the threads that Node has for the disk
  flushesWaiting: 1024, // a job thread asks for up to 32 at a time
  jobQueue: 64, // jobs that may wait for a thread; one app has half of these places
  headerBytes: 16 * KiB, // header section of a request: all names and values together
  headerCount: 100,
  urlBytes: 8 * KiB,
  requestTimeoutMs: 30 * SECOND, // a request must have arrived whole within this time
  uploadTimeoutMs: 5 * MINUTE, // an upload may take longer: it is allowed this for its whole body
  bodiesBytes: 256 * MiB, // of all unanswered requests; one that does not fit is answered `OVERLOADED`
  smallBodyBytes: 16 * KiB, // bodies up to this size have the last sixteenth of such a budget for themselves
  answersBytes: 256 * MiB, // large unread answers; over it, the reader that took nothing for longest is cut off
  keepAliveMs: 1 * MINUTE, // of an idle connection (node edge); its answers say so
  uwsKeepAliveMs: 7 * SECOND, // on the uws edge, whose native code ends idle connections after 8 to 12 s
  connections: 24_000, // connections open at once. Fewer where the process may not have that many files open
  descriptorReserve: 1024, // left by connections to the rest of the supervisor; half of all where there are few
  spareDescriptors: 64, // kept by the uws edge, to let go when connections took all others between checks
  descriptorCheckMs: 100, // how often the uws edge counts free descriptors
  descriptorShortMs: 5, // the same when they run short
  connectionCheckMs: 2 * SECOND, // how often the node edge looks for connections whose request did not arrive in time
  pipelinedRequests: 64, // unanswered requests of one connection (node edge); one more ends it
  stalledReaderMs: 30 * SECOND, // a client that takes nothing of an answer or stream for this long is cut off
  lingerMs: 2 * SECOND, // how long the rest of a refused body is read, so that its sender reads the answer

  forwardedProofMs: 1 * MINUTE, // how far the clock of a node that forwards a request may be from that of the one that gets it
  forwardedPieceBytes: 64 * KiB, // a body or an answer up to this size is sent on in one piece, a longer one as a stream
  nodeConnectMs: 2 * SECOND, // reaching another node
  nodeIdleMs: 5 * SECOND, // an unused connection to another node is kept; less than `uwsKeepAliveMs`
  nodeConnections: 256, // unused connections to one node that are kept
  nodeCallBytes: 72 * MiB, // what a node asks another one for itself: as much as a frame
  nodeCallMs: 6 * SECOND, // until it is answered: longer than a write waits for the database of the cluster
  nodePartMs: 10 * SECOND, // until a node has answered what all nodes are asked
  nodesWholeMs: 6 * SECOND, // that nodes are asked again of which one cannot be reached: longer than a take-over
  nodesMovingMs: 20 * SECOND, // the same while a bucket moves: longer than what is under way in it may take, and the next node
  nodesAgainMs: 100, // between two such times

  toolTimeoutMs: 600 * SECOND,
  inputIssues: 20, // issues listed in an `INVALID_INPUT` answer
  idempotencyMs: 24 * HOUR,
  idempotencyKeyBytes: 255,

  frameBytes: 72 * MiB, // a frame between two of our processes; a result plus its envelope must fit
  linkBacklogBytes: 128 * MiB, // bytes waiting to be written to one peer before it counts as stuck
  linkBatchFrames: 16, // frames that leave in one write
  linkBatchBytes: 64 * KiB, // waiting frames of this size together leave at once
  helloMs: 5 * SECOND, // time a new connection has to say `hello`

  actorYoungMb: 6, // new objects of an actor: small, because short calls leave little behind
  memoryLookMs: 50, // how often a handler host looks at its memory, while it has actors
  commonsCalls: 32, // calls of an app in the commons within `commonsWindowMs`; with more it gets a thread of its own
  commonsWorkMs: 200, // time that its code may take there in that window
  commonsTurnsMs: 500, // time that all its turns may take there in that window, timers included
  commonsWindowMs: 10 * SECOND,
  commonsStallMs: 100, // an app whose code runs there for this long without a pause gets a thread of its own
  commonsLookMs: 20, // how often a handler host looks for that, while the commons work
  commonsCallBytes: 16 * MiB, // memory that one turn of an app may allocate there
  commonsBytesOutside: 128 * MiB, // buffers of all apps there, outside of the heap; the one with most of them leaves
  commonsMemoryMb: 512, // JavaScript heap of the thread of a host's commons
  commonsYoungMb: 16, // new objects of all of them
  commonsPlaces: 500, // apps in the commons of one host; the least used one leaves first
  commonsScriptBytes: 1 * MiB, // characters of all modules of an app there
  commonsModuleDepth: 100, // modules that lead to a module
  commonsDatabases: 200, // open databases there, by least use
  actorConcurrency: 64, // calls one actor works on at a time; the others wait in its mailbox
  actorResultsBytes: 32 * MiB, // results one actor works on at a time, judged by the last ones
  sqlBytes: 100 * KiB, // statement text of one call to `db`
  batchStatements: 10_000,
  readRows: 100_000,
  readBytes: 64 * MiB,
  jsonRows: 1000, // of `db.json()` made by SQLite, which gathers them before it could notice a limit; more take the way of `all`
  jsonRowBytes: 64 * KiB, // texts of one of these rows
  leaseMs: 5 * SECOND, // how long `db.transaction()` may hold the app's write lane
  replayedBytes: 1 * MiB, // statements and results of one that the next writer repeats
  writerStuckMs: 5 * SECOND, // a statement that keeps the writer busy this long ends with the writer being replaced
  writerSlowMs: 400, // a statement of an app that keeps the shared writer busy this long is done in a separate writer
  ownWriters: 4, // apps that may have a separate writer, after they kept the shared one busy
  ownWriterIdleMs: 30 * SECOND, // after an app was removed, until its separate writer is ended
  writerConnections: 2048, // connections whose progress the writer remembers for its replacement
  handoverMs: 1 * MINUTE, // how long that is kept. Longer than any client looks for the writer that takes over
  statementCache: 200, // prepared statements kept per connection
  laneQueue: 20_000, // statements that may wait in one lane
  groupCommit: 1000, // statements in one group commit
  groupMs: 50, // a group that has taken this long is committed before its next statement
  writerRetryMs: 50, // how often a client looks for a writer that is being replaced
  writerLostTries: 3, // how often a statement of the gateway's own is repeated after the writer died with it
  logAnswerMs: 2 * SECOND, // how long the log of pages may take for one answer, before the connection is given up
  logReaders: 4, // connections of a writer for opening databases and folding their logs
  logPatienceMs: 5 * SECOND, // how long a group of commits is offered to a log that does not answer
  logGroupBytes: 16 * MiB, // pages of several databases in one transaction of the log
  logGatherMs: 5, // how long a group of the log of pages waits for apps that are about to commit
  logKnownBytes: 16 * MiB, // pages of all databases whose last versions a writer keeps, so that it sends their changes
  logMarkMs: 250, // until the mark of a copy says what the log has of it by now; after a crash the rest is fetched again
  logBytes: 16 * MiB, // entries of one database in the log, after which they are folded into its snapshot
  logEntries: 10_000, // the same by number
  snapshotPages: 256, // pages in one piece of a snapshot
  writerBusyMs: 250, // waiting for a lock of a program outside the gateway; all lanes wait with it
  readBusyMs: 1 * SECOND, // how long a read waits for such a lock
  checkpointPages: 1000, // WAL pages after which a thread copies them into the database file
  walPages: 8000, // WAL pages after which the writer itself finishes a checkpoint, so that the file starts over
  walBytes: 64 * MiB, // a longer log is cut to this when it starts over
  truncateLogMs: 1 * SECOND, // how long a migration waits for readers before it leaves its log untruncated
  checkpointCommits: 32, // commits between checks of the log's size; an idle lane checks too
  databaseCacheBytes: 2 * MiB, // page cache of one open database
  openDatabases: 128, // databases the writer keeps open
  databaseIdleMs: 30 * SECOND, // a database without connections is closed after this time

  // Tests of an app that the gateway runs on a draft.
  appTestsMs: 2 * MINUTE,
  appTestsHeapMb: 512, // heap of each of their processes
  appTestsMemoryMb: 1024, // all memory of one of them
  appTestsLookMs: 500, // how often that is looked at
  appTestsOutputChars: 8 * MiB, // of their results
  appTestErrorChars: 4000, // of one result

  // SQL of callers: `svc sql`, the console, `svc_sql_*`.
  sqlRows: 200,
  sqlRowsMax: 10_000, // of a statement that only reads, where the caller asks for as many
  sqlMs: 2 * SECOND, // one statement; its process is killed if it takes longer
  sqlProcesses: 4, // each runs one statement at a time; one app has half of them
  sqlQueue: 64, // statements that may wait for one of them; one app has half of these places
  sqlWaitMs: 10 * SECOND, // how long they wait, the start of the process included
  sqlIdleMs: 30 * SECOND, // a process without a statement is kept this long for the next one
  sqlHeapMb: 256, // heap of its thread, and all memory of the process
  sqlMemoryMb: 1024,

  turnMs: 5, // after so long, work on many apps lets the supervisor's event loop go on
  notifyMs: 5 * SECOND, // of one message to systemd
  heartbeatMs: 1 * SECOND,
  activityApps: 1000, // apps whose calls of the last hour are shown as curves: at most 6 KiB each
  activityMs: MINUTE, // the time that a point of these curves covers
  activityPoints: 60,
  metricsApps: 100, // apps with their own label in metrics; the others are counted together
  eventLoopSampleMs: 10, // how often the delay of the supervisor's event loop is sampled
  heartbeatDeadMs: 10 * SECOND, // no answer to heartbeats for this long: the process is killed and replaced
  cancelGraceMs: 1 * SECOND, // after its deadline, an actor answers a ping within this or its thread ends
  overdueMs: 5 * SECOND, // past its deadline, when the thread of a call is replaced even if it answers pings
  terminateMs: 2 * SECOND, // if a thread has not ended this long after the order, its host process is ended
  startsAtOnce: 8, // actors that one host starts at a time; the others wait, and their time to start has not begun
  actorStartMs: 10 * SECOND, // starting an actor, from the order to `ready`
  childStartMs: 15 * SECOND,
  spareStartMs: 10, // the first spare thread of a host starts so soon, and that of the commons once they work
  spareDelayMs: 50, // after an actor is ready, a host starts its next spare thread: the first answer needs the processor
  drainMs: 10 * SECOND,
  restartIntensity: 5,
  restartWindowMs: 30 * SECOND,
  restartBackoffMs: 100,
  restartBackoffMaxMs: 5 * SECOND,
  startTries: 3, // tries to start an actor before it is `failed_to_start`
  crashingCalls: 32, // calls remembered per app as having taken its actor down

  // An app that cost others a writer or a shared host this often within the window is quarantined.
  harmTimes: 2,
  harmWindowMs: 10 * MINUTE,

  changeRing: 1024,
  changeHeartbeatMs: 15 * SECOND,
  changeRetryMs: 2 * SECOND,
  subscriberBacklogBytes: 256 * KiB, // bytes waiting for one subscriber before its backlog is folded into one `reset`
  backlogsBytes: 64 * MiB, // shared by the subscribers that have something waiting
  subscribers: 20_000, // event streams open at once, over all apps
  liveIntervalMs: 50, // between two runs of one live query
  liveRuns: 8, // runs for live queries of one app at a time, so that they leave its other callers room
  liveQueries: 1000, // different live queries of one app: each is run again for a write
  liveFollowers: 10_000, // subscriptions to live queries of one app, half of all event streams
  liveNextMs: 25 * SECOND, // a node that follows a query at another one gets no new state, and asks again
  liveFollowersOfClient: 6000, // the same of one client, over all apps, so that others have room
  liveQueriesOfStream: 50, // live queries that share one event stream
  mcpPageBytes: 2 * MiB, // the document of a page for hosts of MCP Apps, which take no larger ones
  mcpBridgeBytes: 64 * KiB, // of that for the bridge, which is put in when it is read
  mcpPageParseMs: 5 * SECOND, // parsing the scripts of such a document
  mcpFileBytes: 4 * MiB, // a file of an app as a resource, before its encoding as text
  mcpUriBytes: 8 * KiB, // the URI of a resource of MCP, as the address of a live query
  mcpSessions: 10_000, // sessions of MCP clients that are remembered
  mcpQuestions: 10_000, // calls of MCP clients that were answered with a question to their person
  mcpListsMs: 100, // changes of the lists of an MCP client within this time are told together
  mcpAwayMs: 5 * MINUTE, // how long the subscriptions of a session wait for a client that has no stream open
  liveResultsBytes: 64 * MiB, // latest results kept for the next subscriber; over it, a query is run for each
  liveRetryMs: 1 * SECOND, // until a live query that failed is run again, doubled with each failure
  liveRetryMaxMs: 30 * SECOND,
  liveRefreshSeconds: 86_400, // largest value of `refreshSeconds`
  changeRingsBytes: 64 * MiB, // all rings together; over it, the ring of the app that has been quiet longest is emptied

  resultsBytes: 64 * MiB, // kept results of queries, over all apps
  resultsOfAppBytes: 16 * MiB,
  resultBytes: 1 * MiB, // one of them; larger ones are not kept
  resultKeyBytes: 8 * KiB, // the call of a query whose result is kept
  unkeptQueries: 10_000, // queries that are remembered because their results cannot be kept
  tablesReadChars: 64 * KiB, // names of the tables that one query may say it read, each with one more; over it, any table counts
  histories: 512, // apps whose commits are followed, each with an open file; the others start over
  strangeStateMs: 100, // how long the note of a commit may be on its way until it counts as one of another process
  commitLookMs: 1 * SECOND, // how often the data of watched apps is checked for commits of other processes

  staticCacheBytes: 64 * MiB, // bytes of static files kept in memory, over all apps
  staticIndexBytes: 32 * MiB, // lists of static files in memory, as bytes of their JSON and headers

  manifestCacheChars: 8 * MiB, // manifests kept in memory, as characters of their text

  logFileBytes: 5 * MiB,
  logLineBytes: 64 * KiB,
  sourcePlaces: 1000, // places in bundles of packages whose sources an app's thread remembers
  errorMessageChars: 4096, // characters of a handler's error message that its caller sees
  logBacklogBytes: 1 * MiB, // of an app, or of the gateway, before lines are dropped and counted
  logFlushMs: 50, // lines are collected this long and written together
  logRetryMs: 100, // until standard error is tried again that did not take the gateway's log
  logDrainMs: 500, // at the end, how long a slow reader may take for what waits

  pageErrors: 20, // errors of the open pages of a draft that its log gets in one window; the rest is counted
  pageErrorsMs: 5 * SECOND,
  pageErrorsBytes: 64 * KiB, // one message of a page with its errors
  pageErrorChars: 2000, // text of one
  pageFileChars: 300, // the file that it names

  auditDays: 400, // entries of the audit log are kept for
  auditWaiting: 1000, // of them, for a database that is away
  auditAgainMs: 1 * SECOND, // between two looks whether it is back
  auditRefusals: 100, // refused sign-ins that it records in one window
  auditRefusalsMs: 1 * HOUR,

  sessionMs: 12 * HOUR, // of a sign-in that no setting makes longer
  sessionMaxMs: 90 * DAY,
  people: 10_000,
  pictureBytes: 256 * KiB, // of a person
  personSessions: 50, // of one person; those not used for longest make room
  passwordsWaiting: 50, // to be hashed, one after the other
  personSessionMs: 30 * DAY, // from the last use of a person's sign-in
  freshSignInMs: 10 * MINUTE, // after a sign-in or a confirmation, in which a person changes how they sign in
  personCookieMs: 400 * DAY, // what a browser keeps at most; the sign-in ends earlier
  roleIdChars: 32,
  personNameChars: 100,
  emailChars: 254,
  deviceChars: 200, // what a browser calls itself
  passwordChars: 12,
  passwordCharsMax: 1000,
  passkeys: 20, // of one person
  passkeyMs: 5 * MINUTE, // from the options of a passkey to its answer
  passkeyChallenges: 10_000, // that wait for an answer; the oldest make room
  passkeyChallengesOfNetwork: 500, // of those
  passkeyIdChars: 1400, // an id has up to 1023 bytes, in base64url
  passkeyAnswerChars: 16 * KiB, // each text of an authenticator's answer
  attemptsWindowMs: 15 * MINUTE, // failed sign-ins are counted within
  attemptsOfPerson: 10,
  attemptsOfAddress: 30,
  attemptWaitMs: 1 * MINUTE, // after as many failures; it doubles with each more
  attemptsKept: 10_000, // names and addresses whose failures are counted
  invitations: 1000,
  invitationDays: 7,
  invitationDaysMax: 365,
  invitationUses: 1000, // people who may use one
  invitationGrants: 100, // apps that one shares
  connectionClients: 1000, // programs that registered to be connected
  clientRedirects: 10, // addresses of one
  clientRedirectChars: 2000,
  clientNameChars: 80,
  clientUnusedMs: 1 * DAY, // how long a program is remembered that nobody connects
  clientKeptMs: 90 * DAY, // from when it was connected last
  clientDocuments: 100, // what programs say of themselves at an address of their own, remembered
  clientDocumentMs: 5 * MINUTE,
  clientDocumentReadMs: 5 * SECOND,
  oauthBodyBytes: 16 * KiB, // what a program sends to register, or for a token
  codeMs: 1 * MINUTE, // how long the code is good that a browser takes to a program
  codesWaiting: 1000,
  connectedPrograms: 50_000, // programs that people connected
  personConnections: 50, // of one person; those not used for longest make room
  accessTokenMs: 1 * HOUR, // of a connected program
  accessTokens: 4, // of one connection that are good at once
  refreshTokenMs: 30 * DAY,
  refreshAgainMs: 10 * SECOND, // within this the token that was replaced last gives the same next one
  groups: 1000,
  groupMembers: 10_000,
  shares: 100_000,
  shareDays: 3650,
  removedIds: 10_000, // removed apps whose ids are remembered: the next of that id clears browsers
  usedApps: 100, // other apps whose tools the pages of one may call
  ticketMs: 30 * SECOND, // how long a one-time ticket from the console to a page's origin is good
  providerFlowMs: 10 * MINUTE, // from the way to a provider until the browser is back
  providerWaitMs: 10 * SECOND, // for each answer of a provider, and for the keys of a proxy
  providerAnswerBytes: 256 * KiB,
  providerKnownMs: 1 * HOUR, // what a provider says of itself is asked again after this
  clockSkewSeconds: 60, // by which the clocks of the gateway and of a provider or proxy may differ
  linkMs: 10 * MINUTE, // how long a one-time link that signs in at the console is good
  ticketsWaiting: 10_000, // unused tickets and links; the oldest make room
  toldCallers: 1000, // callers whom a thread knows by numbers; more take the numbers of the first
  signedCookies: 10_000, // cookie headers of which is remembered that the signature of the session was right
  signedCookieChars: 1_000, // of such a header; longer ones are checked each time
  hostNames: 1_000, // host names that are remembered with what they stand for
  tokenDigests: 64, // digests of presented tokens that are remembered
  tokenPollMs: 5 * SECOND, // how often the token file is read again, in case the file watcher missed a rotation
  programTokens: 1000, // tokens for programs
  programTokenApps: 100, // apps that one token may name
  programTokenNameChars: 100,
  programTokenDays: 3650,
  useNoteMs: 1 * MINUTE, // until the last use of a token or sign-in is stored; also notices a clock that was set
  identityRetryMs: 5 * SECOND, // stored tokens and people that could not be read are tried again after this
  settingsBytes: 64 * KiB,
  secrets: 100, // of one app, or of one draft
  secretBytes: 64 * KiB, // value of a secret: certificates with their chain are the largest
  secretHiddenChars: 4, // shorter values are not taken out of logs and results: they are part of too many other texts
  secretLineChars: 8, // the same for one line of a value that has several
  secretLines: 500, // such lines of all values of an app together; further ones are found as parts of the whole value only
  secretsFormer: 100, // replaced and deleted values of an app that are still taken out, until its process ends
  backups: 3, // copies of an app's data that are kept from before its migrations
  backupsKept: 1000, // files of backups on schedule
  backupFolderChars: 4096,
  backupBytes: 256 * GiB, // content of one backup
  backupFiles: 500_000,
  backupManifestBytes: 128 * MiB, // a file takes some 150 bytes of it
  backupPartMs: 1 * HOUR, // packing one app: its code and a copy of its data
  backupVerifyMs: 6 * HOUR, // reading a whole backup again
  backupWaitMs: 12 * HOUR, // how long the command line waits for the gateway to make a backup
  lowDiskBytes: 512 * MiB, // free disk below which `doctor` warns
  fullDiskBytes: 8 * MiB, // below which it says that the disk is full

  automationTimeoutMaxMs: 1 * HOUR, // largest value `automationTimeoutMs` may take
  automationBytes: 64 * KiB, // the text of one `automation.json`
  automationStoredBytes: 128 * KiB, // the same with the switches and addresses of webhooks that we write into it
  automationTriggers: 10, // triggers of one automation, and characters of a cron expression or time zone
  cronChars: 256,
  automations: 1000, // automations of one app
  automationsAtOnce: 16, // apps whose automations are read at a time, one file after another
  fireThreads: 32, // threads of automations, working or kept for the next fire; counted apart from the apps'
  fireThreadsOfApp: 24, // of these, those of one app: what hangs in one leaves places for the others
  fireIdleMs: 30 * SECOND, // a fire's thread that has nothing to do is kept this long for the next one
  runsWaiting: 100, // runs of one automation that may wait for the one before them
  runValueBytes: 64 * KiB, // what is stored of arguments, inputs and outputs; the rest is cut and a marker says so
  runNodesBytes: 8 * MiB, // arguments and outputs of one run's nodes
  runValueLeftBytes: 512, // what later ones are cut at
  runListedBytes: 2 * KiB, // a larger input or output is shown in lists as its beginning only
  runSummaryChars: 4096,
  runsDropped: 500, // runs that leave the history at the end of one run, and at a time when their app is removed
  runNodes: 10_000, // calls of `ctx.tool` and `ctx.agent` in one run, with the permissions of its agents
  runNodesAtOnce: 64, // asks of one `ctx` under way; further ones wait in the thread
  jsonDepth: 1000, // how deep JSON may nest that a request holds, or that an automation hands over, gets or returns
  askBytes: 1 * MiB, // what a fire hands to one function of its `ctx`, as JSON
  stateValueBytes: 256 * KiB, // one value in `ctx.state`, and the keys of one automation
  stateKeys: 1000,
  stateKeyBytes: 255,
  failureDepth: 3, // `onFailure` fires of fires of fires
  fireResultBytes: 1 * MiB, // what a handler may return: its summary and output, as JSON
  agentTextChars: 1 * MiB, // text of one answer of an agent
  runEndTries: 3, // the end of a run that could not be stored is tried so often in all, each time after this wait
  runEndWaitMs: 1 * SECOND,
  runGatherMs: 4, // while many runs are under way, what one of them has to store waits this long at most for others
  runSummaryMs: 100, // until the summary of a run that ended is written, with those of others
  insightsDays: 30, // days that `GET /svc/_insights` sums up, and how many of the latest runs it has
  insightsDaysMax: 366,
  insightsRecent: 20,
  runEvents: 1000, // events kept of a run under way, for later followers
  runEventsBytes: 4 * MiB,
  listRows: 50, // rows of a list that can grow: by default, and at most
  listRowsMax: PAGE_ROWS,

  upcomingDays: 31, // that the calendar of automations looks ahead, at most
  upcomingFires: 50, // that it has of one automation, and of all
  upcomingFiresTotal: 2000,

  cronLateMs: 1 * MINUTE, // a cron fire that is noticed later than this was missed
  cronWaitMs: 1 * MINUTE, // the longest wait of the scheduler's one timer, so that a clock that was set is noticed
  cronBackMs: DAY, // fired times further ahead come of a clock that was wrong, and may come again
  cronStretches: 8, // between jumps of the clock, that are told apart for an automation: a clock that was set back repeats none
  cronTurn: 100, // what the scheduler does in one turn of the event loop: fires and next times together, and how long
  cronTurnMs: 10,
  cronCache: 2000, // cron expressions that are kept ready, each with its time zone; they take some 3 KiB
  cronLookups: 16, // lookups of an automation's last fire under way when the scheduler starts

  webhookBodyBytes: 64 * KiB,
  webhookFires: 60, // fires of one webhook in one window
  webhookWindowMs: 1 * MINUTE,
  webhookFailures: 30, // wrong secrets for one webhook in one window
  webhookUnverified: 64, // unverified bodies of one signed webhook; over it, the slowest is cut off
  webhookUnverifiedBytes: 1 * MiB, // their bytes together, apart from `bodiesBytes`
  webhookYoungMs: 1 * SECOND, // until then a body is not slow: its sender may be far away
  webhookResponseBytes: 64 * KiB, // the body that a handler answers a webhook's sender with
  webhookResponseHeaderBytes: 8 * KiB, // its headers: all names and values together
  webhookDeliveryMs: 4 * DAY, // how long the ids of deliveries of services are kept: Stripe repeats for three days
  webhookToleranceMs: 5 * MINUTE, // how far the time of a signed webhook may be off

  toolServerStartMs: 30 * SECOND, // starting an MCP server and agreeing on the protocol with it
  toolServerAnswerBytes: 8 * MiB, // an answer of an MCP server
  toolServerBackoffMs: 500, // waits between attempts to reach an MCP server: the first, and the longest
  toolServerBackoffMaxMs: 30 * SECOND,
  toolServerCalls: 1024, // calls to MCP servers under way at once, all servers together
  toolServerEndMs: 500, // from closing the input of an MCP server to telling it to end; then `terminateMs`
  agentLineBytes: 8 * MiB, // a line that an agent writes; a longer one ends its turn
  agentAnswerBytes: MiB, // text that an agent answers in one turn, and the result of one of its tools
  agentTurnBytes: 64 * MiB, // everything that an agent writes in one turn
  agentUntakenBytes: MiB, // events of a turn that are not stored yet, until its agent is no longer read from
  agentSilentMs: 10 * MINUTE, // without a word of an agent until its turn ends
  agentIdleMs: 5 * MINUTE, // without a turn until an agent's process is ended
  agentStartMs: 30 * SECOND, // starting an agent and agreeing on its protocol
  agentEndMs: 2 * SECOND, // from closing an agent's input until SIGTERM, and from there until SIGKILL
  agentAbortMs: 5 * SECOND, // from the abort of a turn until an agent that still works is ended
  agentLossEndMs: 500, // `agentEndMs` when the gateway is gone
  reportedProcesses: 1024, // programs of agents, or MCP servers, that are recorded at a time
  agentsMemoryMb: 512, // heap of the process that owns the agents and the clients of MCP servers, in MiB
  catalogItems: 1000, // models of one runner that are kept, and as many tools
  groundingTextBytes: 8 * KiB, // text that every agent gets; the next three are its parts for one app
  groundingToolsBytes: 16 * KiB,
  groundingTablesBytes: 8 * KiB,
  groundingHostToolsBytes: 4 * KiB,
  agentSearchLines: 200, // lines that a search in a draft finds
  agentListedFiles: 1000, // files of a draft that are listed
  agentToolBytes: 128 * KiB, // part of a tool's result that a model gets
  modelSteps: 32, // answers of a model in one turn, each of which may call tools
  modelRetries: 2, // further tries when a model server refuses or cannot be reached
  agentProbeMs: 5 * SECOND, // asking an agent's program for its version
  agentStderrBytes: 4 * KiB, // what is kept of the standard error of an agent: its end
  agentHistoryBytes: 256 * KiB, // latest messages, for an agent that keeps no history
  agentAttachmentBytes: 8 * MiB, // a file that an agent gets; of a larger one it gets only the name
  chatMessageBytes: 256 * KiB, // a message to an agent
  chatQueue: 8, // turns of one window that wait
  chatTurns: 500, // turns that run and wait, in all windows and conversations together
  chatRuns: 1000, // turns of an app's chats that stay in the history of runs
  chatWindows: 1000, // windows of one app
  chatTurnBytes: 8 * MiB, // stored events of one turn
  chatTranscriptBytes: 32 * MiB, // a window with more takes no further message
  chatStoreEveryMs: 1, // of all turns together, from one store of events to the next, once there were so many at once
  chatStoreBurst: 8,
  chatTailBytes: 16 * KiB, // latest events of a running turn that are kept in memory for its followers
  chatHistoryChars: 256 * KiB, // earlier messages that an agent gets
  chatHistoryTextChars: 64 * KiB, // one of these messages
  chatHistoryToolTurns: 20, // latest turns whose tools an agent without memory is told
  chatHistoryToolChars: 128 * KiB, // these tools together
  chatHistoryToolResultChars: 4 * KiB, // arguments, or result, of one of them
  chatIndexMs: 100, // from a change until the index of an app's windows is written
  chatAbortMs: 10 * SECOND, // from the abort of a turn until its runner is no longer waited for; `agentAbortMs` and the end of its programs
  chatAttachments: 16, // files that go with a message
  conversations: 10_000, // of one app
  conversationPageBytes: 8 * MiB, // messages in one answer, approximately: a turn is not split
  attachmentBytes: 25 * MiB, // an uploaded file
  attachmentsBytes: 1 * GiB, // attachments of one app together, each counted with 4 KiB at least
  attachmentCountedBytes: 4 * KiB,
  attachmentKeepMs: DAY, // an uploaded file that no message has is kept this long
  titleChars: 80, // of a window or conversation that is named after its first message
  permissionOptions: 16, // answers that a permission may offer
  permissionMs: 5 * MINUTE, // a permission without an answer is denied
  toolServerStderrBytes: 4 * KiB, // what is kept of the standard error of an MCP server: its end

  blobBytes: 100 * MiB, // a file that an app keeps, as it is uploaded
  blobHandlerBytes: 16 * MiB, // one that a handler stores or reads: it has all of it in memory
  blobQuotaMb: 1024, // files of one app together, in MiB, where its manifest does not say
  blobs: 100_000, // files of one app

  sharedPieceBytes: 1 * MiB, // of a file, and of small files together, that one statement sends to the database of a cluster
  sharedPathBytes: 2000, // of a path there, as its index takes no more
  sharedSubjects: 256, // whose files a node remembers; those of others are read and compared again
  sharedSweep: 1000, // contents that one step of the cleaning looks at
  objectGraceMs: 7 * DAY, // until an object that nothing names any more is deleted: an older database that was restored may name it
  objectSilenceMs: 10 * SECOND, // of an S3-compatible store in the middle of a request, before that is given up
  objectTries: 3, // of a request that such a store did not get, or was too busy for
  objectRetryMs: 100, // until the second try; each later one waits twice as long

  workspacesClosedPollMs: 1 * SECOND, // how often a node of a cluster looks which workspaces were closed
  workspaces: 1000, // workspaces that may be open
  workspaceNameChars: 80, // of the name that people give one
  workspaceStaleMs: 30 * DAY, // `svc doctor` shows a workspace untouched for this long; it is never deleted
  noticeBytes: 64 * KiB, // what is given for one, as JSON
  noticeTitleChars: 200,
  noticeTextChars: 4000,
  noticeUrlChars: 2048,
  noticesInWindow: 60, // of what one app sends; and as many about its failures
  noticeWindowMs: 1 * HOUR,
  noticesWaiting: 200, // for one channel; a newer one takes the place of the oldest
  noticeSendMs: 30 * SECOND, // one try to send one
  linkMailMs: 10 * SECOND, // to mail an invitation, which whoever makes it waits for
  noticeRetryMs: 10 * SECOND, // before the second try, doubled for each further one
  noticeRetryMaxMs: 15 * MINUTE,
  noticeKeptMs: 24 * HOUR, // a notice that could not be sent for so long is given up
  noticePushBytes: 2500, // of a notice's text in a message to a browser: all of it may have 4 KiB
  noticeBrowsers: 50, // that agreed
  textChars: 500, // short texts in requests, such as names
  commitMessageChars: 10_000,
  templateCatalogBytes: 1 * MiB, // of a remote catalog
  templates: 500, // taken of one
  templateArchiveBytes: 16 * MiB,
  templateFetchMs: 20 * SECOND,
  appFetchMs: 2 * MINUTE, // of an app's archive that somebody names by its address, as a whole

  diskRetryMs: 5 * SECOND, // how often a disk that was full at the start is checked for room
  firstStartBytes: 1 * MiB, // what a new data directory needs to begin with
  databaseSnapshotBytes: 16 * MiB, // a database read as a whole while the disk has no room for its log index

  gitLockMs: 10 * SECOND, // waiting for a ref that a git program changes
  gitLockLeftMs: 5 * SECOND, // an older lock was left by a crash
  gitLockPollMs: 20,
  gitLooseObjects: 2000, // loose objects from which on they are packed
  gitPackEvery: 20, // changes of apps between two counts of them
  gitPackObjects: 4096, // one pack of loose objects; a larger object stays loose
  gitPackBytes: 16 * MiB,
  gitPackedObjectBytes: 16 * MiB,
  gitJoinedPacks: 8, // so many small packs become one; small are those of an eighth of its size
  gitJoinedPackBytes: 32 * MiB,
  gitPackUsedMs: DAY, // a pack that is older is marked as used when an object is needed that it may hold
  gitPackCacheBytes: 64 * MiB, // packs that a job thread keeps in memory for its next job
  gitBundleBytes: 1 * GiB,
  gitObjectBytes: 16 * MiB, // one object of a bundle that is imported, and all of them, inflated
  gitBundleInflatedBytes: 32 * GiB, // a delta counts with those below it, which are made again for it
  gitDeltaDepth: 250, // deltas below one object; git makes up to 50
  gitVersion: 1_000_000, // highest number of an imported version: the next ones need room below nine digits
  gitBundleMs: 15 * MINUTE, // writing or reading a bundle
  gitMergeEdits: 5000, // lines in which a side differs; over this or the time, both sides meet as a whole
  gitMergeMs: 2 * SECOND, // of one file
  gitDiffLines: 200_000, // lines of both versions; a longer file has no patch
  gitDiffEdits: 2000, // lines that differ, and time, after which the patch of one file replaces it as a whole
  gitDiffMs: 1 * SECOND,
  gitDiffBytes: 4 * MiB, // all patches of one diff; files that come after have none
  gitDiffsMs: 10 * SECOND,

  listPages: 200, // of one list that the command line reads; a gateway that has more is not believed
  statusActors: 200, // apps and automations of a host that the status lists
  diskUsageMs: 5 * MINUTE, // between two measurements of the disk usage of apps, while metrics are scraped
  spansOfCall: 128, // spans of writes and requests that a traced call reports
  spanQueue: 4096, // spans that wait for the collector of traces; more are dropped
  spanBatch: 128, // spans that are sent to it at a time: more would hold the event loop
  spanDelayMs: 1 * SECOND, // before the first of a batch is sent
  spansEndMs: 2 * SECOND, // for what is left of them when the gateway stops

  minAppMemoryMb: 64, // least `appMemoryMb`
  liveAppBytes: 12 * MiB, // what an app with a thread of its own takes, as `appMemoryMb` counts
  minLivePlaces: 16, // such apps at a time, with little memory and with much
  maxLivePlaces: 512,
  processFiles: 1024, // open files of a process beside those of live apps: its own, connections, what it follows
  threadFiles: 10, // of an app with a thread of its own
  databaseFiles: 3, // of a database that is open: itself, its log and the log's index
  quietAppBytes: 1 * MiB, // what an app in the commons takes, as `appMemoryMb` counts
  minQuietPlaces: 50, // such apps at a time, with little memory; `commonsPlaces` with much
  useHalfLifeMs: 1 * MINUTE, // after this time a call counts half when an app must make room
  draftThreads: 16, // drafts with a running thread at a time, in addition to those of apps
  draftIdleMs: 15 * MINUTE, // a draft unused for this long is no longer watched
  draftTidyMs: 1 * MINUTE, // how often unused drafts are looked for
  draftSettleMs: 25, // what is edited in this time becomes one change of the draft
  draftFolders: 500, // watched folders of one draft; with more, it is read whenever it is used
  watchedFolders: 4000, // of all drafts
  draftSeedMs: 10 * MINUTE, // copying live data for a draft

  nodeLeaseMs: 3 * SECOND, // of a node of a cluster; the others take over its buckets when it has ended
  nodeLeaseMarginMs: 200, // so much earlier the node itself takes it as ended: clocks do not run equally fast
  nodeLookMs: 1 * SECOND, // between two renewals, each of which also reads what changed
  nodeMovingLookMs: 200, // the same while buckets are about to change their owner
  transactionStallMs: 10 * SECOND, // a transaction in the database of a cluster whose node says nothing is ended
  readingStallMs: 5 * MINUTE, // the same where it only reads, which nobody waits for: the node writes to its disk meanwhile
  databaseBytesPerMs: 4 * KiB, // the database of a cluster has longer for a question that sends much
  nodeQueryMs: 1 * SECOND, // one question to the database, so that a second one fits into the lease
  nodeStartMs: 10 * SECOND, // that a node which starts waits for a database that is slow
  nodeStartAnswerMs: 3 * SECOND, // one answer then
  nodeKeptMs: DAY, // the row of a node that did not come back
  nodeClockMs: 1 * SECOND, // a node's clock that is further from the database's is told
  beginAnswerMs: 1 * MINUTE, // one answer of the database while a node brings its apps into it: the commit waits for all of them
  beginProgressMs: 5 * SECOND, // how often the log says how far it is
  bucketGraceMs: 1 * SECOND, // a node keeps a bucket that it was asked for, until the stream is there that was announced
  bucketsMoved: 256, // that a node hands over at once
  identityChanges: 20_000, // of people and their rights that their owner remembers; who missed more reads all of them again
  identityChangesAtOnce: 2000, // in one answer
  identityWaitMs: 500, // an owner without changes answers a node that asks for them
  identityAskMs: 1500, // until that answer is given up: within the lease there is time to look whether there can be changes
  tablesLockMs: 1 * SECOND, // a change of the cluster's tables waits so long for their users, who meanwhile wait for it
  tablesTries: 60, // of one such change
  tablesStepMs: 10 * MINUTE, // one of them, with the wait for the other nodes that make it
  dayMs: DAY,
} as const;
