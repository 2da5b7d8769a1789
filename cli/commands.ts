/** The table of commands. Help, suggestions and argument checks are all made from it. */

import { DEFAULTS, LIMITS } from '../protocol/limits.ts';
import type { OptionTable } from './arguments.ts';
import type { Command } from './command.ts';

/** Options that every command takes. */
export const COMMON_OPTIONS: OptionTable = {
  json: { summary: 'Print JSON, for programs' },
  help: { summary: 'Explain the command', short: 'h' },
};

const DATA_DIRECTORY: OptionTable = {
  'data-dir': {
    value: 'dir',
    summary: 'Data directory of the gateway (default: SVC_DATA_DIR, ./.svc, or the place for app data)',
  },
};

/** Options of commands that talk to a running gateway. */
export const CONNECTION_OPTIONS: OptionTable = {
  url: { value: 'url', summary: 'Address of the gateway (default: SVC_URL, the profile, or the one running here)' },
  token: { value: 'token', summary: 'Access token (default: SVC_TOKEN, or the one that belongs to the address)' },
  ...DATA_DIRECTORY,
};

export const COMMANDS: Command[] = [
  {
    name: 'serve',
    group: 'Gateway',
    summary: 'Run the gateway',
    positionals: '',
    details: ['Serves until it is stopped with Ctrl-C or SIGTERM, which lets running calls finish first.'],
    options: {
      host: { value: 'host', summary: `Address to listen on (default ${DEFAULTS.host})` },
      port: { value: 'port', summary: `Port to listen on, 0 for any free one (default ${DEFAULTS.port})` },
      config: { value: 'file', summary: 'Configuration file (JSON); options given here win over it' },
      store: { value: 'tarball', summary: 'Where app code is kept' },
      edge: { value: 'auto|uws|node', summary: 'HTTP server to use (default auto: uWebSockets.js where it loads)' },
      with: {
        value: 'dir',
        summary: 'Install the app in this folder unless it is there already; repeatable',
      },
      ...DATA_DIRECTORY,
    },
    examples: ['svc serve', 'svc serve --data-dir .svc --with examples/todos', 'svc serve --port 0 --json'],
    load: () => import('./commands/serve.ts'),
  },
  {
    name: 'status',
    group: 'Gateway',
    summary: 'Show the gateway and its process tree',
    positionals: '',
    options: { watch: { short: 'w', summary: 'Keep it on the screen, refreshed every second' }, ...CONNECTION_OPTIONS },
    load: () => import('./commands/status.ts'),
  },
  {
    name: 'doctor',
    group: 'Gateway',
    summary: 'Check this machine and the gateway on it, and say how to fix what is wrong',
    positionals: '',
    options: {
      port: { value: 'port', summary: `Port that should be free (default ${DEFAULTS.port})` },
      ...DATA_DIRECTORY,
    },
    load: () => import('./commands/doctor.ts'),
  },
  {
    name: 'token',
    group: 'Gateway',
    summary: 'Print the access token, or replace it',
    positionals: '[rotate]',
    details: [
      '"rotate" writes a new token and waits until the running gateway takes it. The old one and all browser sessions end.',
    ],
    options: DATA_DIRECTORY,
    examples: ['svc token', 'svc token rotate'],
    load: () => import('./commands/token.ts'),
  },
  {
    name: 'backup',
    group: 'Gateway',
    summary: 'Save code, data and configuration in one file, while the gateway runs',
    positionals: '[file]',
    details: [
      'The file is verified before it gets its name, and is readable by its owner only. It holds all data of all apps, but not the access token.',
      'Without a file, or with a folder, the name is made from the time. A gateway that is stopped is backed up from its data directory.',
    ],
    options: CONNECTION_OPTIONS,
    examples: ['svc backup', 'svc backup /srv/backups/'],
    load: () => import('./commands/backup.ts'),
  },
  {
    name: 'restore',
    group: 'Gateway',
    summary: 'Restore a backup into an empty data directory',
    positionals: '<file>',
    details: [
      'Every checksum, every database and the number of rows of every table are verified first. A file that is damaged is refused, and nothing is touched.',
    ],
    options: { 'data-dir': { value: 'dir', summary: 'Directory to restore into: empty, or not there yet' } },
    examples: ['svc restore monday.svc-backup.tar.gz --data-dir /srv/svc'],
    load: () => import('./commands/restore.ts'),
  },
  {
    name: 'new',
    group: 'Apps',
    summary: 'Make a folder with a small app that works at once',
    positionals: '<dir>',
    options: { name: { value: 'name', summary: 'Name to show (default: made from the folder)' } },
    examples: ['svc new notes', 'svc new ./guestbook --name "Guest book"'],
    load: () => import('./commands/new.ts'),
  },
  {
    name: 'push',
    group: 'Apps',
    summary: 'Upload an app folder and make it live',
    positionals: '<dir>',
    details: ['Hidden files, node_modules, links, databases and files of other types than apps may hold are left out.'],
    options: {
      id: { value: 'id', summary: 'Id to register it under (default: the id in app.json)' },
      'no-activate': { summary: 'Store the version without making it live' },
      ...CONNECTION_OPTIONS,
    },
    examples: ['svc push ./notes'],
    load: () => import('./commands/push.ts'),
  },
  {
    name: 'apps',
    group: 'Apps',
    summary: 'List the apps',
    positionals: '',
    options: CONNECTION_OPTIONS,
    load: () => import('./commands/apps.ts'),
  },
  {
    name: 'describe',
    group: 'Apps',
    summary: 'Show what apps can do, one app, or one of its queries and actions',
    positionals: '[app [tool]]',
    options: CONNECTION_OPTIONS,
    examples: ['svc describe', 'svc describe notes', 'svc describe notes add'],
    load: () => import('./commands/describe.ts'),
  },
  {
    name: 'versions',
    group: 'Apps',
    summary: 'List the stored versions of an app',
    positionals: '<app>',
    options: CONNECTION_OPTIONS,
    load: () => import('./commands/versions.ts'),
  },
  {
    name: 'activate',
    group: 'Apps',
    summary: 'Make a stored version live',
    positionals: '<app> <version>',
    details: ['The last six characters of a version are enough.'],
    options: CONNECTION_OPTIONS,
    load: () => import('./commands/activate.ts'),
  },
  {
    name: 'rollback',
    group: 'Apps',
    summary: 'Make the version before the live one live again',
    positionals: '<app> [version]',
    details: ['Code goes back; data stays as it is.'],
    options: CONNECTION_OPTIONS,
    load: () => import('./commands/rollback.ts'),
  },
  {
    name: 'restart',
    group: 'Apps',
    summary: 'Restart an app, also out of quarantine',
    positionals: '<app>',
    options: CONNECTION_OPTIONS,
    load: () => import('./commands/restart.ts'),
  },
  {
    name: 'rm',
    group: 'Apps',
    summary: 'Remove an app',
    positionals: '<app>',
    details: [
      `Code and data move to the trash of the data directory and stay for ${DEFAULTS.trashDays} days, unless --purge is given.`,
    ],
    options: {
      purge: { summary: 'Delete code and data at once' },
      yes: { short: 'y', summary: 'Do not ask' },
      ...CONNECTION_OPTIONS,
    },
    load: () => import('./commands/rm.ts'),
  },
  {
    name: 'read',
    group: 'Data',
    summary: 'Run a query',
    positionals: '<app> <query> [input]',
    details: ['The input is JSON, "@file" to read it from a file, or "-" for standard input.'],
    options: CONNECTION_OPTIONS,
    examples: ['svc read notes list', `svc read notes list '{"limit": 5}'`],
    load: () => import('./commands/read.ts'),
  },
  {
    name: 'write',
    group: 'Data',
    summary: 'Run an action',
    positionals: '<app> <action> [input]',
    details: ['The input is JSON, "@file" to read it from a file, or "-" for standard input.'],
    options: {
      key: { value: 'key', summary: 'Idempotency key: the same key and input runs once within 24 hours' },
      ...CONNECTION_OPTIONS,
    },
    examples: [`svc write notes add '{"text": "Milk"}'`, 'svc write notes add - < note.json'],
    load: () => import('./commands/write.ts'),
  },
  {
    name: 'sql',
    group: 'Data',
    summary: "Run one SQL statement on an app's database",
    positionals: '<app> <statement> [params]',
    details: [
      'Params are a JSON array for ? or an object for :name.',
      `Reads stop after ${LIMITS.sqlRows} rows or ${LIMITS.sqlMs / 1000} s. Writes are seen by open pages at once.`,
    ],
    options: CONNECTION_OPTIONS,
    examples: ["svc sql notes 'select * from notes'", `svc sql notes 'delete from notes where id = ?' '[3]'`],
    load: () => import('./commands/sql.ts'),
  },
  {
    name: 'changes',
    group: 'Data',
    summary: 'Follow what changes in the tables of an app',
    positionals: '<app>',
    options: { tables: { value: 'a,b', summary: 'Only these tables' }, ...CONNECTION_OPTIONS },
    load: () => import('./commands/changes.ts'),
  },
  {
    name: 'logs',
    group: 'Data',
    summary: 'Show the log of an app, or of everything',
    positionals: '[app]',
    options: {
      follow: { short: 'f', summary: 'Go on with new entries as they come' },
      lines: { short: 'n', value: 'count', summary: 'Entries to show (default 50)' },
      ...CONNECTION_OPTIONS,
    },
    examples: ['svc logs', 'svc logs notes -f'],
    load: () => import('./commands/logs.ts'),
  },
  {
    name: 'automations',
    group: 'Automations',
    summary: 'List automations, switch them on or off, or mint their webhooks',
    positionals: '[enable|disable|provision|show] [app/automation]',
    details: [
      'Without a verb, lists what fires on its own and when. "show" prints one with its file.',
      '"provision" mints what is still pending in the live versions, of one automation, of one app or of all; a push does so by itself. Secrets are shown once: with --renew a webhook whose secret was lost gets a new address and a new secret, and the old ones are void.',
    ],
    options: {
      app: { value: 'app', summary: 'Only those of this app' },
      renew: { summary: 'With provision: replace the address and the secret of a webhook' },
      ...CONNECTION_OPTIONS,
    },
    examples: [
      'svc automations',
      'svc automations disable notes/digest',
      'svc automations provision --app notes',
      'svc automations provision notes/inbox --renew',
    ],
    load: () => import('./commands/automations.ts'),
  },
  {
    name: 'run',
    group: 'Automations',
    summary: 'Run an automation now; show or cancel a run',
    positionals: '<app/automation|show|cancel> [input]',
    details: [
      'The input is JSON, "@file" to read it from a file, or "-" for standard input.',
      '"svc run show <run>" prints a run with every call it made, "svc run cancel <run>" ends one that is under way.',
    ],
    options: { wait: { short: 'w', summary: 'Wait for the end, and fail when the run fails' }, ...CONNECTION_OPTIONS },
    examples: ['svc run notes/digest --wait', `svc run notes/digest '{"day": "monday"}'`],
    load: () => import('./commands/run.ts'),
  },
  {
    name: 'runs',
    group: 'Automations',
    summary: 'Show the latest runs, or follow them as they happen',
    positionals: '[app/automation]',
    options: {
      follow: { short: 'f', summary: 'Go on with what happens, each call of a run as it ends' },
      app: { value: 'app', summary: 'Only those of this app' },
      state: { value: 'state', summary: 'Only those in this state: ok, error, running, …' },
      lines: { short: 'n', value: 'count', summary: 'Runs to show (default 20)' },
      ...CONNECTION_OPTIONS,
    },
    examples: ['svc runs', 'svc runs notes/digest --state error', 'svc runs -f'],
    load: () => import('./commands/runs.ts'),
  },
];
