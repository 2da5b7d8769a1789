/** The table of commands. Help, suggestions and argument checks are all made from it. */
import { RUN_STATES } from '../protocol/automations/run-states.ts';
import { DEFAULTS, LIMITS } from '../protocol/limits.ts';
import type { Command, OptionTable } from './command.ts';

/** Options as help shows them, such as `-n, --lines <count>`, each with its summary. */
type Options = Record<string, string>;

const DATA_DIRECTORY: Options = {
  '--data-dir <dir>':
    'Data directory of the gateway (default: SVC_DATA_DIR, the nearest .svc here or above, or the application data folder)',
};

/** Options of commands that talk to a running gateway. */
export const CONNECTION_OPTIONS = optionTable({
  '--url <url>': 'Address of the gateway (default: SVC_URL, the profile, or the one running here)',
  '--token <token>': 'Access token (default: the one that belongs to the address; SVC_TOKEN with --url and SVC_URL)',
  ...DATA_DIRECTORY,
});

/** Options that every command takes. */
export const COMMON_OPTIONS = optionTable({ '--json': 'Print JSON', '-h, --help': 'Explain the command' });

/** Unless it is `local`, a command takes `CONNECTION_OPTIONS` too. */
type Entry = Pick<Command, 'summary' | 'details' | 'examples' | 'load'> & {
  options?: Options;
  local?: true;
};

const JSON_INPUT = 'The input is JSON; "@file" reads it from a file, "-" from standard input.';

/** By group, and by usage: the name with the positionals. */
const GROUPS: Record<string, Record<string, Entry>> = {
  Gateway: {
    serve: {
      local: true,
      summary: 'Run the gateway',
      details: ['Runs until Ctrl-C or SIGTERM. Running calls finish first.'],
      options: {
        '--host <host>': `Address to listen on (default ${DEFAULTS.host})`,
        '--port <port>': `Port to listen on, 0 for any free one (default ${DEFAULTS.port})`,
        '--config <file>': 'Configuration file (JSON); command-line options override it',
        '--store <tarball|git>': 'How to store app code (default: the store of the directory; git in a new one)',
        '--edge <auto|uws|node>': 'HTTP server to use (default auto: uWebSockets.js if it loads)',
        '--with <dir|template>': 'Install the app in this folder, or a template, unless it is installed; repeatable',
        '--open': 'Open the console in the browser, or the first app of --with',
        '--log-file <file>': 'Write the log to this file of the data directory, instead of standard error',
        '--cluster <postgres-url>':
          'Be a node of the cluster of this database; SVC_CLUSTER_SECRET is the secret of its nodes; repeatable for a primary and its standbys',
        '--node <name>': 'Name of this node in the cluster (default: the name of the machine)',
        '--node-address <url>':
          'Where the other nodes reach this one (default: --host and --port, unless those are all addresses)',
        ...DATA_DIRECTORY,
      },
      examples: [
        'svc serve --with todos',
        'svc serve --data-dir .svc --with ./notes',
        'svc serve --port 0 --json',
        'svc serve --host 10.0.0.5 --cluster postgres://svc@db.example.org/svc',
      ],
      load: async () => (await import('./commands/operations/serve-command.ts')).serve,
    },
    'service <install|uninstall|status>': {
      local: true,
      summary: 'Run the gateway as a service of yours, from sign-in on',
      details: [
        'On Linux it is a unit of your systemd, on macOS an agent of launchd. Install it again after an upgrade, or to change its options.',
        '"uninstall" stops and removes the service; apps and their data stay, and it says where. "status" exits with 1 unless the service runs.',
      ],
      options: {
        '--config <file>': 'Configuration file of the gateway (JSON)',
        '--port <port>': `Port to listen on (default ${DEFAULTS.port})`,
        ...DATA_DIRECTORY,
      },
      examples: ['svc service install', 'svc service install --port 8080', 'svc service status'],
      load: async () => (await import('./commands/operations/service-command.ts')).service,
    },
    convert: {
      local: true,
      summary: 'Move the apps of a stopped gateway to the git store',
      details: [
        'Versions become tags; data does not change. An interrupted conversion leaves the old store, or the next start finishes it. Make a backup first if you may want to go back.',
      ],
      options: {
        '--store <git>': 'The store to move to',
        '--config <file>': 'Configuration file of the gateway, if it has one',
        ...DATA_DIRECTORY,
      },
      examples: ['svc convert --store git --data-dir .svc'],
      load: async () => (await import('./commands/operations/convert-command.ts')).convert,
    },
    'open [app]': {
      summary: 'Print a link that signs a browser in to the console or an app',
      details: [
        'The link works once, within ten minutes. The browser stays signed in for twelve hours, or as long as signInHours of the configuration says. Do not share it: it gives full access.',
      ],
      options: {
        '--workspace <workspace>': "Open the app's draft in this workspace",
        '--qr':
          'Print it as a QR code for a phone in this network; the gateway must listen there (svc serve --host 0.0.0.0)',
      },
      examples: ['svc open', 'svc open todos', 'svc open notes --workspace dev-notes', 'svc open todos --qr'],
      load: async () => (await import('./commands/access-command.ts')).open,
    },
    'desktop [app]': {
      local: true,
      summary: 'Show the console or an app in a window of its own',
      details: [
        'Uses an installed Chrome, Chromium, Edge or Brave, and signs it in by a one-time link. Starts a gateway unless one runs on the data directory; it keeps running when the window is closed. A window that shows the same page is brought to the front.',
      ],
      options: {
        '--browser <browser>': 'chrome, chromium, edge, brave, or a program (default: the first that is installed)',
        '--quit': 'Close all windows, and stop the gateway if "svc desktop" started it',
        '--port <port>': `Port of a gateway that is started, 0 for any free one (default ${DEFAULTS.port})`,
        '--config <file>': 'Configuration file (JSON) of a gateway that is started',
        ...DATA_DIRECTORY,
      },
      examples: ['svc desktop', 'svc desktop todos', 'svc desktop --quit'],
      load: async () => (await import('./commands/desktop-command.ts')).desktop,
    },
    status: {
      summary: 'Show the gateway and its process tree',
      options: { '-w, --watch': 'Refresh every second' },
      load: async () => (await import('./commands/operations/status-command.ts')).status,
    },
    'cluster [status|nodes|drain] [node-name]': {
      summary: 'Show the nodes of the cluster and what they own, or take one out of service',
      details: [
        'Without a verb or with "status": the nodes, the buckets of apps that each of them owns, and the database. "nodes" lists the nodes alone.',
        '"drain" hands the buckets of a node over to the others and waits until it has none: then it can be stopped, and nobody waits for anything. Until then it goes on answering. Without a name it is the node that is asked; another one is asked at its own address.',
      ],
      options: { '--undo': 'With drain: let the node take buckets again' },
      examples: ['svc cluster', 'svc cluster nodes --json', 'svc cluster drain', 'svc cluster drain node-2 --undo'],
      load: async () => (await import('./commands/operations/cluster-command.ts')).cluster,
    },
    doctor: {
      local: true,
      summary: 'Check this machine and its gateway, and say how to fix problems',
      options: {
        '--port <port>': `Port that should be free (default ${DEFAULTS.port})`,
        '--mend': 'Make files of the data directory private that other users can open',
        '--deep': 'Also read every stored file of the apps, and compare it with its checksum',
        ...DATA_DIRECTORY,
      },
      load: async () => (await import('./commands/operations/doctor-command.ts')).doctor,
    },
    audit: {
      summary: 'Show who did what: sign-ins, tokens, secrets, publications and removals',
      details: [`Newest first. Entries are kept for ${LIMITS.auditDays} days.`],
      options: { '-n, --lines <count>': `Entries to show, at most ${LIMITS.listRowsMax} (default ${LIMITS.listRows})` },
      examples: ['svc audit', 'svc audit -n 10'],
      load: async () => (await import('./commands/operations/audit-command.ts')).audit,
    },
    'token [rotate|create|ls|revoke] [token]': {
      summary: 'Print or replace the access token; make, list or revoke tokens for programs',
      details: [
        'Without a verb, prints the token of the data directory, which gives full access. "rotate" replaces it and waits until the running gateway uses the new one. The old one and all browser sessions end; tokens for programs stay.',
        '"create" makes a token with limited rights for a program and prints it once. "ls" lists the tokens with expiry and last use. "revoke" ends a token; name it by its id or name.',
      ],
      options: {
        '--name <name>': 'With create: who uses the token',
        '--app <app>': 'With create: an app that it may use; repeatable (default: every app)',
        '--tools <read|write|all>':
          'With create: read; read and write; or everything about its apps, such as uploads and logs',
        '--expires <days>': 'With create: when it expires, such as 90d (default: never)',
      },
      examples: [
        'svc token',
        'svc token rotate',
        'svc token create --name zapier --app todos --tools read --expires 90d',
        'svc token ls',
        'svc token revoke zapier',
      ],
      load: async () => (await import('./commands/access-command.ts')).token,
    },
    'backup [verify|ls|now] [file]': {
      summary: 'Save code, data and configuration to one file while the gateway runs, now or on schedule',
      details: [
        'The file is verified before it gets its name, and only its owner can read it. It contains all data of all apps, but not the access token.',
        'Without a file, or with a folder, the name comes from the time. A stopped gateway is backed up from its data directory.',
        '"verify" reads a backup as a restore would: every checksum, every database and the row count of every table.',
        '"now" lets the gateway make one in its own folder, as on schedule; "ls" lists the backups there. "verify" also takes a name from that list.',
        'With --schedule the gateway makes backups from then on, in the named folder (default: backups in its data directory), and deletes the oldest after each good one. "svc status" shows the result of the last one.',
      ],
      options: {
        '--schedule <cron>':
          'When to make one, such as "0 3 * * *", in the time zone of the gateway; "off" ends the schedule',
        '--keep <count>': `With --schedule: files to keep (default ${DEFAULTS.backups.keep})`,
      },
      examples: [
        'svc backup',
        'svc backup /srv/backups/',
        'svc backup verify monday.svc-backup.tar.gz',
        'svc backup now',
        'svc backup /mnt/backups/svc --schedule "0 3 * * *" --keep 14',
      ],
      load: async () => (await import('./commands/operations/backup-command.ts')).backup,
    },
    'notify [test] [channel]': {
      summary: 'Show the ways by which notices reach people, or send a test',
      details: [
        'Notices are about failed runs, failed backups and quarantined apps, and what apps send with ctx.notify. "mail" and "notify" of the configuration, and browsers that agreed in the console, say where they go.',
        '"test" sends one to every channel, or to the named one, says how each went, and fails if one did not take it.',
      ],
      examples: ['svc notify', 'svc notify test', 'svc notify test mail'],
      load: async () => (await import('./commands/operations/notify-command.ts')).notify,
    },
    'restore <file>': {
      local: true,
      summary: 'Restore a backup into an empty data directory',
      details: [
        'Verifies every checksum, every database and the row count of every table first. A damaged file is refused, and nothing is written.',
      ],
      options: { '--data-dir <dir>': 'Directory to restore to: empty or missing' },
      examples: ['svc restore monday.svc-backup.tar.gz --data-dir /srv/svc'],
      load: async () => (await import('./commands/operations/backup-command.ts')).restore,
    },
    'completion <bash|zsh|fish>': {
      local: true,
      summary: 'Print a script that lets a shell complete svc command lines',
      details: [
        'Completes commands, options and files, and the names of apps, tools, versions, workspaces, automations and tokens of the gateway.',
        'Load it in the start file of your shell (~/.bashrc, ~/.zshrc, ~/.config/fish/config.fish).',
      ],
      examples: ['eval "$(svc completion bash)"', 'eval "$(svc completion zsh)"', 'svc completion fish | source'],
      load: async () => (await import('./commands/completion-command.ts')).completion,
    },
  },
  People: {
    'people [sessions|role|enable|disable|link|signout|rm] [person] [role]': {
      summary: 'Show the people of the gateway; change what one may do, or sign one in or out',
      details: [
        'Name a person by name, by e-mail address or by id.',
        '"role" makes them owner, author or member. "disable" signs them out and keeps them out until "enable". "link" prints a link that signs them in once, for who has lost their password. "signout" signs them out everywhere. "rm" removes the account and what was shared with it; apps that they made stay.',
      ],
      options: { '-y, --yes': 'Do not ask' },
      examples: [
        'svc people',
        'svc people role Ada author',
        'svc people link ada@example.org',
        'svc people rm Ada --yes',
      ],
      load: async () => (await import('./commands/people/people-command.ts')).people,
    },
    'invite [ls|rm] [invitation]': {
      summary: 'Make a link by which somebody gets an account; list and withdraw those links',
      details: [
        'Send the link to whom it is for. It works once, for a week, unless the options say otherwise.',
        '"ls" lists the invitations that may still be used. "rm" withdraws one.',
      ],
      options: {
        '--name <name>': 'Whom it is for',
        '--email <email>': 'The address of the account; without it, whoever takes the invitation says one',
        '--role <owner|author|member>': 'Role in the gateway (default member)',
        '--app <app>': 'An app that it shares, such as todos, or todos:editor with a role (default viewer); repeatable',
        '--expires <days>': `When it expires, such as 30d (default ${LIMITS.invitationDays}d)`,
        '--uses <count>': 'How many may use it (default 1)',
      },
      examples: [
        'svc invite --name Ada --app todos:editor',
        'svc invite --email ada@example.org --role author',
        'svc invite ls',
      ],
      load: async () => (await import('./commands/people/invite-command.ts')).invite,
    },
    'connections [rm] [connection]': {
      summary: 'Show the programs that somebody connected, and disconnect them',
      details: [
        'Claude, Codex or an editor is connected by signing in, and acts for a person, or for the administrator. Without --person these are the connections of the administrator.',
        '"rm" disconnects a program at once. Name it by its id.',
      ],
      options: { '--person <person>': 'Whose they are: a name, an e-mail address or an id', '-y, --yes': 'Do not ask' },
      examples: ['svc connections', 'svc connections --person Ada', 'svc connections rm c_1f0a52d9b3e7 --person Ada'],
      load: async () => (await import('./commands/people/connections-command.ts')).connections,
    },
    'groups [new|add|drop|rm] [group] [person]': {
      summary: 'Show the groups of people; make, fill and remove them',
      details: ['Name a group by name or id. "add" puts a person into a group, "drop" takes one out of it.'],
      options: { '-y, --yes': 'Do not ask' },
      examples: ['svc groups', 'svc groups new family', 'svc groups add family Ada', 'svc groups rm family --yes'],
      load: async () => (await import('./commands/people/groups-command.ts')).groups,
    },
    'share <app> [who]': {
      summary: 'Give somebody a role in an app',
      details: [
        'Name a person by name, e-mail address or id, a group by name or id, or "everyone", who is each signed-in person. An e-mail address that nobody has makes an invitation, whose link is printed.',
        'A viewer sees the app, an editor also changes its data, a manager also changes the app and shares it. An app can have roles of its own. Sharing again changes the role.',
        'With --link it prints a link: whoever has it uses the app without an account, until the link ends. Each is another one.',
      ],
      options: {
        '--role <role>': 'What they may do: viewer, editor, manager, or a role of the app (default viewer)',
        '--expires <days>': 'When it ends, such as 30d (default: never)',
        '--link': 'Make a link for whoever has it; not as manager',
      },
      examples: [
        'svc share todos Ada --role editor',
        'svc share todos family',
        'svc share todos new@example.org',
        'svc share todos everyone',
        'svc share todos --link --expires 7d',
      ],
      load: async () => (await import('./commands/people/share-command.ts')).share,
    },
    'unshare <app> <who>': {
      summary: 'Take a role in an app away, end a link, or withdraw an invitation to it',
      details: ['What they have open of the app ends at once. Name a link by the id that "svc shares" lists.'],
      examples: ['svc unshare todos Ada', 'svc unshare todos everyone', 'svc unshare todos s_2b7e94c01f68'],
      load: async () => (await import('./commands/people/share-command.ts')).unshare,
    },
    'shares <app>': {
      summary: 'Show who has an app, and who is invited to it',
      examples: ['svc shares todos'],
      load: async () => (await import('./commands/people/share-command.ts')).shares,
    },
  },
  Apps: {
    'new [dir]': {
      summary: 'Make a small working app, or a copy of a template',
      details: [
        'With a folder, the app is made there. Without one, it is made on a gateway with the git store and staged in a workspace until you publish it.',
        'Templates: bookmarks, contact, expenses, feeds, gallery, habits, journal, kanban, polls, todos.',
      ],
      options: {
        '--clone <template>': 'Start from a template instead of a blank app',
        '--ts': 'With a folder: write the handlers of a blank app in TypeScript',
        '--name <name>': 'Displayed name (default: from the folder, the id or the template)',
        '--id <id>': 'Id of the app (default: from the folder or the template)',
        '--workspace <workspace>': 'Without a folder: workspace to stage it in (default: a new one)',
        '--publish': 'Without a folder: publish it at once',
      },
      examples: ['svc new notes', 'svc new ./guestbook --name "Guest book"', 'svc new --clone todos'],
      load: async () => (await import('./commands/apps/new-command.ts')).newApp,
    },
    'types <app|dir>': {
      summary: "Print TypeScript types of an app's tools, of handler and test arguments, and of window.svc",
      details: [
        'The app is a folder with an app.json, or the id of an app on the gateway.',
        'With --out, a name that ends in .ts but not in .d.ts gets a client instead, for programs that call the tools.',
      ],
      options: { '-o, --out <file>': 'Write them to this file' },
      examples: ['svc types ./notes --out notes/svc.d.ts', 'svc types todos', 'svc types todos --out todos-client.ts'],
      load: async () => (await import('./commands/apps/types-command.ts')).types,
    },
    'test <dir>': {
      local: true,
      summary: 'Run the tests of an app folder',
      details: [
        "Runs *.test.js and *.test.ts with Node's test runner. Each test has the app with separate data, clock and network; no gateway is needed.",
        'Exits with 1 if a test fails, if there are no tests, or if the app cannot be made live.',
      ],
      options: { '-w, --watch': 'Run them again after each change' },
      examples: ['svc test ./notes', 'svc test ./notes --watch'],
      load: async () => (await import('./commands/test-command.ts')).test,
    },
    'push <dir|file>': {
      summary: 'Upload an app folder and make it live',
      details: [
        'Skips hidden files, node_modules, links, databases and file types that apps may not contain.',
        'Bundles the packages that handlers import from node_modules.',
        'Instead of a folder, it takes an archive (.tar.gz or .tgz) with app.json at its top, which it sends unchanged.',
        'The folder remembers in .svc-app what it was pushed or pulled as. If another version is live since, the push is refused; a folder that remembers nothing is asked about when its files are those of an older version.',
      ],
      options: {
        '--id <id>': 'Id to register it under (default: the id in app.json)',
        '-m, --message <text>': 'What is new, for svc versions',
        '--no-activate': 'Store the version without making it live',
        '--force': 'Replace whatever is live, without a question',
      },
      examples: ['svc push ./notes', 'svc push ./notes -m "Search by word"', 'svc push notes.tar.gz'],
      load: async () => (await import('./commands/apps/push-command.ts')).push,
    },
    'pull <app> [dir]': {
      summary: 'Take the live version of an app into a folder',
      details: [
        'Into ./<app> unless you name a folder. One that is missing or empty gets all files. One with files gets what is new; on the git store your own changes are merged with it, and lines that both sides changed appear between <<<<<<< workspace, ======= and >>>>>>> published. On the tarball store a folder with changes of its own is refused.',
        'Writes .svc-app, by which svc push, svc publish and svc dev know what the folder came from. Exits with 1 if lines are left to choose between.',
      ],
      examples: ['svc pull notes', 'svc pull notes ./notes'],
      load: async () => (await import('./commands/apps/pull-command.ts')).pull,
    },
    apps: {
      summary: 'List the apps',
      load: async () => (await import('./commands/apps/apps-command.ts')).apps,
    },
    'describe [app [tool]]': {
      summary: 'Describe all apps, one app, or one of its queries and actions',
      examples: ['svc describe', 'svc describe notes', 'svc describe notes add'],
      load: async () => (await import('./commands/apps/apps-command.ts')).describe,
    },
    'versions <files|show|diff|rm|app> [app] [version] [path]': {
      summary: 'List the stored versions of an app; list, print or compare their files; delete one',
      details: [
        '"files" lists the files of the live version, or of the one that you name. "show" prints one of them. "diff" shows what changes if a version becomes live, by default the one that "svc rollback" makes live. "rm" deletes a version that is not live.',
        'Name a version as for "svc activate".',
      ],
      options: {
        '-n, --lines <count>': 'Versions to show, at most 500 (default 50)',
        '--before <version>': 'Only versions older than this one',
        '--stat': 'With diff: only file names and line counts',
        '--out <file>': 'With show: write the file to this path',
        '-y, --yes': 'With rm: do not ask',
      },
      examples: [
        'svc versions notes',
        'svc versions notes -n 10 --before notes/v90',
        'svc versions files notes 3',
        'svc versions show notes 3 app.json',
        'svc versions diff notes --stat',
        'svc versions rm notes 2',
      ],
      load: async () => (await import('./commands/apps/version-files-command.ts')).versions,
    },
    'activate <app> <version>': {
      summary: 'Make a stored version live',
      details: ['The last six characters of a version are enough; on the git store, its number.'],
      load: async () => (await import('./commands/apps/versions-command.ts')).activate,
    },
    'rollback <app> [version]': {
      summary: 'Make the previous version live again',
      details: [
        'Only the code changes, not the data. Name the version as for "svc activate".',
        'Prints the migrations that were applied to the data but that the older version does not have.',
      ],
      examples: ['svc rollback notes', 'svc rollback notes 3'],
      load: async () => (await import('./commands/apps/versions-command.ts')).rollback,
    },
    'activity <app>': {
      summary: 'Show the state of an app and its last hour',
      details: ['Calls, errors, durations, size of the data and live subscribers, minute by minute.'],
      examples: ['svc activity notes', 'svc activity notes --json'],
      load: async () => (await import('./commands/apps/activity-command.ts')).activity,
    },
    'settings <app> [key] [value]': {
      summary: "Show the settings of an app's page, or set one",
      details: ['They are the "knobs" of its app.json. A setting that you do not set has its default.'],
      options: {
        '--default': 'With a key: reset it to its default',
        '--workspace <workspace>': 'Use the settings of the draft in this workspace',
      },
      examples: [
        'svc settings journal',
        'svc settings journal typeface serif',
        'svc settings journal typeface --default',
      ],
      load: async () => (await import('./commands/apps/settings-command.ts')).settings,
    },
    'restart <app>': {
      summary: 'Restart an app and end its quarantine',
      load: async () => (await import('./commands/apps/apps-command.ts')).restart,
    },
    'repair <app>': {
      summary: 'Give an app data again whose database is lost or damaged',
      details: [
        'With the data of a backup, or with new data, and all migrations of the live version. What was there is renamed and stays beside it. Files of the app stay as they are.',
        'Refuses an app whose data is whole.',
      ],
      options: {
        '--restore <backup>':
          'Take the data of this backup: a name from "svc backup ls", or a file on the machine of the gateway',
        '--new-data': 'Begin with an empty database',
        '-y, --yes': 'With --new-data: do not ask',
      },
      examples: ['svc repair notes --restore monday.svc-backup.tar.gz', 'svc repair notes --new-data'],
      load: async () => (await import('./commands/apps/repair-command.ts')).repair,
    },
    'rm <app>': {
      summary: 'Remove an app',
      details: [
        `Code and data stay in the trash for ${DEFAULTS.trashDays} days (trashDays), unless you give --purge: see svc trash.`,
      ],
      options: {
        '--purge': 'Delete code and data at once',
        '-y, --yes': 'Do not ask',
      },
      load: async () => (await import('./commands/apps/apps-command.ts')).rm,
    },
    'trash [restore|empty] [app]': {
      summary: 'List the removed apps that are still kept; restore one, or delete them permanently',
      details: [
        '"restore" brings back code with its versions, data, files, settings, secrets and chat windows. Removing an app deletes its tokens for programs, run history and conversations.',
        'Name an app, for its last removal, or an id from the list. "empty" without a name deletes all.',
      ],
      options: { '-y, --yes': 'Do not ask' },
      examples: ['svc trash', 'svc trash restore notes', 'svc trash empty notes'],
      load: async () => (await import('./commands/apps/trash-command.ts')).trash,
    },
  },
  Drafts: {
    'dev <dir>': {
      summary: 'Sync a folder to a draft and show every edit in a preview',
      details: [
        'The draft is on a gateway with the git store and has a copy of the live data. Prints the log and errors of the draft, and what publishing would refuse.',
        'At the start, the local folder wins. Later, edits by others in the workspace are copied to files that you have not changed.',
        'Ctrl-C ends it; the workspace stays until you publish or close it.',
      ],
      options: {
        '--workspace <workspace>': 'Workspace to use (default: dev-<app>, opened if missing)',
        '--name <name>': 'Name of the workspace, for people',
        '--open': 'Open the preview in the browser',
        '--once': 'Update the draft once; exit with 1 if it is broken or could not be published',
        '--test': 'Run the tests of the folder after each change',
      },
      examples: ['svc dev ./notes', 'svc dev ./notes --open'],
      load: async () => (await import('./commands/authoring/dev-command.ts')).dev,
    },
    'workspaces [open|rename|rm|update] [workspace] [name]': {
      summary: 'List the open workspaces; open, rename, close or update one',
      details: [
        'A workspace has a name for people, beside its id. "rename" gives it another.',
        '"update" merges newer published changes of an app into the workspace. Lines that both sides changed appear between <<<<<<< workspace, ======= and >>>>>>> published: resolve them, then publish.',
      ],
      options: {
        '--name <name>': 'With open: its name (default: the id, or a number)',
        '--app <app>': 'App to update (default: the only app of the workspace)',
        '-y, --yes': 'Do not ask before closing',
      },
      examples: [
        'svc workspaces',
        'svc workspaces open redesign --name "Larger headings"',
        'svc workspaces rename redesign "Smaller headings"',
        'svc workspaces update redesign --app notes',
        'svc workspaces rm redesign',
      ],
      load: async () => (await import('./commands/authoring/workspaces-command.ts')).workspaces,
    },
    'diff [app]': {
      summary: 'Show the changes of a workspace against the published files',
      options: {
        '--workspace <workspace>': 'Workspace (default: the only open one)',
        '--stat': 'Only the names of the files',
      },
      examples: ['svc diff', 'svc diff notes --workspace redesign'],
      load: async () => (await import('./commands/authoring/workspaces-command.ts')).diff,
    },
    'check [app]': {
      summary: 'Check whether a workspace can be published',
      details: [
        'Checks manifest, handlers, automations, schemas and migrations as publishing does, but publishes nothing. Exits with 1 if it finds something.',
      ],
      options: { '--workspace <workspace>': 'Workspace (default: the only open one)' },
      examples: ['svc check', 'svc check notes --workspace dev-notes'],
      load: async () => (await import('./commands/authoring/workspaces-command.ts')).check,
    },
    'publish [app|dir]': {
      summary: 'Publish the changes of a workspace to an app as its next live version',
      details: [
        'Merges the changes with newer published ones, checks them, and runs migrations on the live data. If a step fails, the live version and the workspace stay as they were.',
        'With a folder (a path with a slash, or "."), it first updates the workspace from it, like "svc dev --once", and merges from the version that the folder was last pushed, published or pulled as (.svc-app).',
      ],
      options: {
        '--workspace <workspace>': 'Workspace (default: the only open one; for a folder dev-<app>)',
        '-m, --message <text>': 'What is new: the message of the commit, for svc versions',
        '--force': 'With a folder: do not ask when its files are those of an older version',
      },
      examples: ['svc publish', 'svc publish notes -m "Search by word"', 'svc publish ./notes'],
      load: async () => (await import('./commands/authoring/workspaces-command.ts')).publish,
    },
    'export <file|dir>': {
      summary: 'Save the code of all apps: as a git bundle with its history, or as plain folders',
      details: [
        'A name that ends in .bundle gets a file that git can clone; any other name gets a new folder with one folder per app. An export contains no data: see svc backup.',
      ],
      examples: ['svc export apps.bundle', 'svc export ./apps'],
      load: async () => (await import('./commands/apps/transfer-command.ts')).exportCode,
    },
    'import <file|dir>': {
      summary: 'Import the apps of a git bundle, or of the subfolders of a folder',
      details: ['A bundle needs a gateway without apps and restores every version. A folder is pushed app by app.'],
      examples: ['svc import apps.bundle', 'svc import ./apps'],
      load: async () => (await import('./commands/apps/transfer-command.ts')).importCode,
    },
  },
  Agents: {
    'chat <app> [message]': {
      summary: 'Talk with an agent about an app',
      details: [
        'On a terminal each line is a message. With a message, as an argument or on standard input, it does one turn: the answer goes to standard output, everything else to standard error. Ctrl-C stops the turn; a second one ends the command.',
        'Mode data gives the agent the tools of the app and its tables. Mode full adds the files of a draft, with a copy of the data, and needs the git store: nothing is live before "svc publish".',
        'An agent asks before it does anything else. Without a terminal it cannot ask you, and the answer is no.',
      ],
      options: {
        '--window <window>': 'Conversation to continue, or the name of a new one (default: a new one)',
        '--attach <file>': 'Image or text to send with the message, in mode full; repeatable',
        '--mode <data|full>': 'What the agent may work on (default data; a conversation keeps its mode)',
        '--runner <name>': 'Agent to use (default: see svc agents)',
        '--model <model>': 'Model to use',
      },
      examples: [
        'svc chat notes',
        'svc chat notes "Which notes are about food?"',
        'svc chat notes --mode full "Group the list by day"',
        'svc chat notes --mode full --attach sketch.png "Make it look like this"',
      ],
      load: async () => (await import('./commands/agents/chat-command.ts')).chat,
    },
    'chats <show|rm|app> [app] [window]': {
      summary: 'List the conversations about an app; print or delete one',
      details: ['"show" prints the last messages of one. "rm" deletes one, with its draft.'],
      options: { '-y, --yes': 'With rm: do not ask' },
      examples: ['svc chats notes', 'svc chats show notes 3f2a9c1d', 'svc chats rm notes 3f2a9c1d'],
      load: async () => (await import('./commands/agents/chats-command.ts')).chats,
    },
    agents: {
      summary: 'Show the agents that were found, their models, and how to get or sign in to one',
      details: [
        'They are the "runners" of the configuration; without any, codex and claude if they are on the PATH of the gateway. ✓ means ready, ! that it needs something (the next line says what), – that it is not installed.',
        'How to set one up: see docs/agents.md.',
      ],
      options: { '--refresh': 'Ask the agents again, after an installation or a sign-in' },
      examples: ['svc agents', 'svc agents --refresh'],
      load: async () => (await import('./commands/agents/agents-command.ts')).agents,
    },
    'mcp [app]': {
      summary: 'Serve the tools of an app, or of the gateway, to an MCP client that starts programs',
      details: [
        'Speaks the Model Context Protocol over standard input and output. With an app, each query and action is a tool; without one, the tools are svc_describe, svc_read and svc_write, and svc_sql_* if the token may manage an app.',
        'Clients that speak MCP over HTTP need no program: see docs/mcp.md.',
      ],
      examples: ['svc mcp notes', 'claude mcp add notes -- svc mcp notes'],
      load: async () => (await import('./commands/agents/mcp-command.ts')).mcp,
    },
  },
  Data: {
    'read <app> <query> [input]': {
      summary: 'Run a query',
      details: [JSON_INPUT],
      examples: ['svc read notes list', `svc read notes list '{"limit": 5}'`],
      load: async () => (await import('./commands/apps/data-command.ts')).read,
    },
    'write <app> <action> [input]': {
      summary: 'Run an action',
      details: [JSON_INPUT],
      options: {
        '--key <key>': 'Idempotency key: with the same key and input, the action runs once in 24 hours',
      },
      examples: [`svc write notes add '{"text": "Milk"}'`, 'svc write notes add - < note.json'],
      load: async () => (await import('./commands/apps/data-command.ts')).write,
    },
    'sql <app> <statement> [params]': {
      summary: "Run one SQL statement on an app's database",
      details: [
        'Params are a JSON array for ? or an object for :name.',
        `Reads stop after ${LIMITS.sqlRows} rows or ${LIMITS.sqlMs / 1000} s. Open pages show writes at once.`,
        'Before DROP, and before DELETE and UPDATE without WHERE, it asks you and copies the data.',
      ],
      options: { '-y, --yes': 'Do not ask' },
      examples: ["svc sql notes 'select * from notes'", `svc sql notes 'delete from notes where id = ?' '[3]'`],
      load: async () => (await import('./commands/apps/data-command.ts')).sql,
    },
    'live <app> <query> [input]': {
      summary: 'Follow the result of a query',
      details: ['Prints the result at once and again whenever it differs.', JSON_INPUT],
      examples: ['svc live notes list', `svc live notes list '{"limit": 5}' --json`],
      load: async () => (await import('./commands/apps/data-command.ts')).live,
    },
    'changes <app>': {
      summary: 'Follow changes in the tables of an app',
      options: { '--tables <a,b>': 'Only these tables' },
      load: async () => (await import('./commands/apps/data-command.ts')).changes,
    },
    'files <ls|get|put|rm> <app> [sha256|file]': {
      summary: 'List, download, upload or delete the files that an app keeps',
      details: [
        'Name a file by the SHA-256 of its content, or by a beginning of it that no other file has. "ls" shows the latest first. "put" prints the SHA-256, and takes the type from the extension of the name.',
        'Deleting a file does not delete the table rows that refer to it.',
      ],
      options: {
        '-n, --lines <count>': 'With ls: files to show (default 50)',
        '--sort <newest|largest>': 'With ls: order (default newest)',
        '--out <file>': 'With get: where to write it (default: a name made of its SHA-256 and type)',
        '--type <type>': 'With put: its media type, such as image/png',
        '-y, --yes': 'With rm: do not ask',
      },
      examples: [
        'svc files ls album',
        'svc files put album photo.jpg',
        'svc files get album 3f2a9c --out photo.jpg',
        'svc files rm album 3f2a9c',
      ],
      load: async () => (await import('./commands/apps/files-command.ts')).files,
    },
    'secret <set|ls|rm> <app> [name]': {
      summary: 'Set, list or remove the secrets of an app',
      details: [
        'Handlers read them with ctx.secrets.get(name). "set" asks for the value without showing it, or takes standard input without its last line end; a value is never an argument. "ls" shows names, never values.',
      ],
      options: {
        '--workspace <workspace>':
          'Use the secrets of the draft in this workspace; a draft gets no values of the live app',
      },
      examples: [
        'svc secret set shop STRIPE_KEY',
        'svc secret set shop TLS_KEY < key.pem',
        'svc secret ls shop',
        'svc secret rm shop STRIPE_KEY --workspace dev-shop',
      ],
      load: async () => (await import('./commands/secret-command.ts')).secret,
    },
    'logs [app]': {
      summary: 'Show the log of one app or of all',
      options: {
        '-f, --follow': 'Continue with new entries',
        '-n, --lines <count>': 'Entries to show (default 50, at most 10000)',
      },
      examples: ['svc logs', 'svc logs notes -f'],
      load: async () => (await import('./commands/apps/data-command.ts')).logs,
    },
  },
  Automations: {
    'automations [enable|disable|provision|show|upcoming] [app/automation]': {
      summary: 'List automations and when they fire, switch them on or off, or create their webhooks',
      details: [
        'Without a verb, lists automations and when they fire. "show" prints one with its file, "upcoming" the scheduled fires of the next days.',
        '"provision" creates the webhooks that are still pending in live versions, for one automation, one app or all; a push does this by itself. Secrets are shown once: if you lose one, --renew replaces the address and the secret, and the old ones stop working at once.',
      ],
      options: {
        '--app <app>': 'Only those of this app',
        '--days <n>': 'With upcoming: number of days ahead (default 7)',
        '--renew': 'With provision: replace the address and the secret of a webhook',
      },
      examples: [
        'svc automations',
        'svc automations upcoming --days 2',
        'svc automations disable notes/digest',
        'svc automations provision --app notes',
        'svc automations provision notes/inbox --renew',
      ],
      load: async () => (await import('./commands/automations/automations-command.ts')).automations,
    },
    'run <app/automation|show|again|cancel> [input]': {
      summary: 'Run an automation now; show, repeat or cancel a run',
      details: [
        JSON_INPUT,
        '"svc run show <run>" prints a run with its calls, "svc run again <run>" runs its automation with the same input, "svc run cancel <run>" ends a running one.',
      ],
      options: { '-w, --wait': 'Wait for the end, and fail if the run fails' },
      examples: ['svc run notes/digest --wait', `svc run notes/digest '{"day": "monday"}'`],
      load: async () => (await import('./commands/automations/runs-command.ts')).run,
    },
    'runs [app/automation]': {
      summary: 'Show the latest runs, or follow them as they happen',
      options: {
        '-f, --follow': 'Continue with new runs and their calls',
        '--app <app>': 'Only those of this app',
        [`--state <${RUN_STATES.join('|')}>`]: 'Only those in this state',
        '-n, --lines <count>': 'Runs to show (default 20)',
      },
      examples: ['svc runs', 'svc runs notes/digest --state error', 'svc runs -f'],
      load: async () => (await import('./commands/automations/runs-command.ts')).runs,
    },
    insights: {
      summary: 'Show the results and cost of the latest runs, by automation, model and day',
      details: ['Runs that left the history and runs of removed apps count too. Days are in UTC.'],
      options: { '--days <n>': 'Number of days, at most 366 (default 30)' },
      examples: ['svc insights', 'svc insights --days 7'],
      load: async () => (await import('./commands/automations/insights-command.ts')).insights,
    },
  },
};

export const COMMANDS: Command[] = Object.entries(GROUPS).flatMap(([group, entries]) =>
  Object.entries(entries).map(([usage, { options = {}, local, ...entry }]) => {
    const [name = '', ...positionals] = usage.split(' ');
    const all = { ...optionTable(options), ...(local ? {} : CONNECTION_OPTIONS), ...COMMON_OPTIONS };
    return { name, group, positionals: positionals.join(' '), options: all, ...entry };
  }),
);

function optionTable(options: Options): OptionTable {
  const entries = Object.entries(options).map(([usage, summary]) => {
    const [, short, name = '', value] = /^(?:-(\w), )?--([\w-]+)(?: <(.+)>)?$/.exec(usage) ?? [];
    return [name, { summary, ...(value && { value }), ...(short && { short }) }];
  });
  return Object.fromEntries(entries);
}
