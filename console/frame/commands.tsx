/** What the palette can do: each command does what a button of the console does, and asks first where that one asks. */
import type { ComponentChildren } from 'preact';
import type { AppRecord, AutomationRow, TemplateRow } from '../../protocol/answer-types.ts';
import { route } from '../../protocol/http/addresses.ts';
import { addressOf } from '../../protocol/http/client.ts';
import { go, hrefOf } from '../address.ts';
import { restartApp } from '../app/restart-app.ts';
import { runNow, toggled } from '../automations/automation-parts.tsx';
import { documentHref } from '../docs/help-pages.ts';
import { gateway as client } from '../gateway.ts';
import { type GatewayState, isOwners, makesApps, manages } from '../gateway-state.tsx';
import { NewApp, type Way } from '../home/new-app.tsx';
import { chooseTheme, readTheme, type Theme } from '../theme.ts';
import { notify } from '../ui/notice.tsx';
import type { Entry } from './palette-entries.ts';

export type CommandContext = {
  gateway: GatewayState;
  automations: readonly AutomationRow[];
  templates: readonly TemplateRow[];
  /** The app that is shown: its commands come first. */
  app: string | undefined;
  /** Shows a dialog until `close` is called. */
  ask: (dialog: (close: () => void) => ComponentChildren) => void;
  /** Null where there are no sessions. */
  signOut: (() => Promise<void>) | null;
};

const THEMES: readonly [Theme, string][] = [
  ['light', 'Theme: light'],
  ['dark', 'Theme: dark'],
  ['system', 'Theme: as the system'],
];

/** In the order in which they are shown while nothing is typed. */
export function commandsOf(context: CommandContext): Entry[] {
  const { gateway, signOut, app: shown } = context;
  const { apps = [] } = gateway;
  const rank = ({ id, status }: AppRecord) =>
    id === shown ? 0 : status === 'quarantined' || status === 'damaged' ? 1 : 2;
  const sorted = [...apps].sort((a, b) => rank(a) - rank(b));
  const urgent = sorted.filter((app) => rank(app) < 2);
  return [
    ...urgent.flatMap((app) => (manages(gateway, app) ? ofApp(app, context) : [])),
    ...(makesApps(gateway) ? ofNewApps(context) : []),
    ...(isOwners(gateway) ? [BACKUP] : []),
    command('reload', 'Reload', 'This page', 'refresh', () => location.reload()),
    ...THEMES.filter(([theme]) => theme !== readTheme()).map(([theme, text]) =>
      command(`theme ${theme}`, text, 'Console', 'change colours dark mode light mode auto', () => chooseTheme(theme)),
    ),
    link('help', 'Help', 'Documents', 'documentation docs guide manual how', documentHref(['console'])),
    link(
      'api',
      'Open the API description',
      'OpenAPI',
      'documentation docs http routes',
      addressOf('GET /svc/_openapi.json'),
    ),
    ...(signOut === null ? [] : [command('sign out', 'Sign out', 'Console', 'log out leave', signOut)]),
    ...sorted.flatMap((app) => {
      if (!manages(gateway, app)) return pageOf(app);
      return urgent.includes(app) ? [] : ofApp(app, context);
    }),
  ];
}

function ofNewApps({ ask, templates }: CommandContext): Entry[] {
  const newApp = (key: string, text: string, first: Way, template?: string) =>
    command(key, text, template === undefined ? 'Gateway' : 'Template', 'make create add archive zip upload url', () =>
      ask((close) => <NewApp first={first} template={template} onClose={close} />),
    );
  return [
    newApp('new', 'New app from a template', 'template'),
    newApp('new blank', 'New blank app', 'blank'),
    newApp('new archive', 'New app from a file', 'import'),
    newApp('new address', 'New app from an address', 'address'),
    ...templates.map(({ id, name }) => newApp(`new ${id}`, `New app from ${name}`, 'template', id)),
  ];
}

const AT_SECRETS = { part: 'secrets' };
const VERSIONS = { show: 'versions' };

function ofApp(app: AppRecord, { gateway, automations, app: shown }: CommandContext): Entry[] {
  const { id, name, status } = app;
  const restart = command(`restart ${id}`, `Restart ${name}`, id, `${status} quarantine`, async () => {
    await restartApp(app);
    gateway.reload();
  });
  const fired = automations
    .filter((row) => row.app === id)
    .flatMap((row) => [
      command(`run ${row.ref}`, `Run ${row.name} now`, row.ref, `fire automation ${name}`, () => runNow(row)),
      command(
        `switch ${row.ref}`,
        `Switch ${row.name} ${row.enabled ? 'off' : 'on'}`,
        row.ref,
        `automation enable disable ${name}`,
        async () => {
          const { enabled } = await toggled(row);
          notify(`${row.name} is ${enabled ? 'on' : 'off'}.`);
        },
      ),
    ]);
  const links = [
    link(`secrets ${id}`, `Secrets of ${name}`, id, 'set key password', hrefOf(['apps', id, 'settings'], AT_SECRETS)),
    link(`rollback ${id}`, `Roll back ${name}`, id, 'rollback versions undo', hrefOf(['apps', id, 'code'], VERSIONS)),
  ];
  const entries = [...(app.activeVersion === null ? [] : [restart]), ...pageOf(app), ...fired, ...links];
  return id === shown ? entries.map((entry) => ({ ...entry, isNear: true })) : entries;
}

/** Where there is one. */
const pageOf = ({ id, name, activeVersion }: AppRecord): Entry[] =>
  activeVersion === null ? [] : [link(`open ${id}`, `Open ${name}`, id, 'page', route`/svc/${id}/`)];

const command = (key: string, text: string, aside: string, also: string, act: () => unknown): Entry => ({
  ...{ key: `do ${key}`, text, aside, also, act },
});

const link = (key: string, text: string, aside: string, also: string, href: string): Entry => ({
  ...{ key: `do ${key}`, text, aside, also, href },
});

const BACKUP: Entry = command('backup', 'Back up now', 'System', 'take make a backup save', async () => {
  go(hrefOf(['system', 'backups']));
  await client.call('POST /svc/_backups/files');
  notify('The backup is being made.');
});
