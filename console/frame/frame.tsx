/** The frame around every view: navigation, the state of the gateway, and the command palette. */
import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useLayoutEffect, useState } from 'preact/hooks';
import type { AppRecord } from '../../protocol/answer-types.ts';
import type { DescribedApp } from '../../protocol/routes/apps/tools-rows.ts';
import { type Address, hrefOf, useAddress } from '../address.ts';
import { helpAbout } from '../docs/help-pages.ts';
import { GatewayError, gateway } from '../gateway.ts';
import { GatewayContext, type GatewayState, isOwners } from '../gateway-state.tsx';
import { isDiskNearlyFull } from '../home/attention.tsx';
import { Home } from '../home/home.tsx';
import { FreshSignIn } from '../people/account/fresh-sign-in.tsx';
import { usePolled } from '../polled.ts';
import { readSession, type Session, signOut } from '../session.ts';
import { sample } from '../system/samples.ts';
import { MintedElsewhere } from '../ui/minted.tsx';
import { Notices, notifyProblem } from '../ui/notice.tsx';
import { Button, Empty, State } from '../ui/parts.tsx';
import { plural } from '../words.ts';
import { lazy } from './lazy.tsx';
import { Palette } from './palette.tsx';
import { DOCUMENT_ENTRIES, placesOf } from './palette-entries.ts';
import { ThemeChoice } from './theme-choice.tsx';

const AppView = lazy(async () => (await import('../app/app.tsx')).AppView);
const AutomationsView = lazy(async () => (await import('../automations/automations.tsx')).AutomationsView);
const RunsView = lazy(async () => (await import('../runs/runs.tsx')).RunsView);
const DocsView = lazy(async () => (await import('../docs/docs.tsx')).DocsView);
const PeopleView = lazy(async () => (await import('../people/people.tsx')).PeopleView);
const AccountView = lazy(async () => (await import('../people/account/account.tsx')).AccountView);
const SystemView = lazy(async () => (await import('../system/system.tsx')).SystemView);

const PLACES = [
  { id: '', text: 'Apps', icon: 'M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z' },
  { id: 'automations', text: 'Automations', icon: 'M12 4a8 8 0 1 1 0 16a8 8 0 0 1 0-16M12 8v4l3 2' },
  { id: 'runs', text: 'Runs', icon: 'M4 6h10M4 12h16M4 18h7' },
  { id: 'people', text: 'People', icon: 'M12 5a3.5 3.5 0 1 1 0 7a3.5 3.5 0 0 1 0-7M5 20a7 7 0 0 1 14 0' },
  { id: 'system', text: 'System', icon: 'M5 5h14v5H5zM5 14h14v5H5zM8 7.5h.01M8 16.5h.01' },
] as const;

/** A process that is not needed now. */
const RESTING = new Set(['stopped', 'idle']);

type Read = Pick<GatewayState, 'system' | 'isShared'> & { apps: AppRecord[] };

/** At an address that apps share nothing is administered: there the list comes from the apps’ own descriptions. */
let isShared = false;

async function readGateway(person: GatewayState['person'], signal: AbortSignal): Promise<Read> {
  if (!isShared) {
    try {
      const [apps, system] = await Promise.all([
        gateway.all('GET /svc/_apps', {}, ({ id }) => ({ after: id }), { signal }),
        isOwners({ isShared, person }) ? gateway.call('GET /svc/_system', {}, { signal }) : undefined,
      ]);
      return { apps, system, isShared };
    } catch (error) {
      if (!(error instanceof GatewayError) || error.status !== 403) throw error;
      isShared = true;
    }
  }
  const { data } = await gateway.call('POST /svc/_tool/svc_describe', {}, { signal });
  const { apps } = data as Extract<typeof data, { apps: DescribedApp[] }>;
  // One that cannot be described, such as before its first version, is of no use here.
  return { apps: apps.flatMap((app) => ('error' in app ? [] : recordOf(app))), system: undefined, isShared };
}

type Usable = Exclude<DescribedApp, { error: object }>;

const recordOf = ({ app, name, description, queries, actions }: Usable): AppRecord => ({
  id: app,
  name,
  version: '',
  ...(description !== undefined && { description }),
  kind: 'app',
  backend: 'tarball',
  status: 'active',
  activeVersion: '',
  registeredAt: 0,
  updatedAt: 0,
  queries: queries.length,
  actions: actions.length,
  automations: 0,
});

export function Frame({ session, onSignedOut }: { session: Session | null; onSignedOut: () => void }) {
  const address = useAddress();
  const [isSearching, setSearching] = useState(false);
  const [dialog, setDialog] = useState<((close: () => void) => ComponentChildren) | null>(null);
  const [person, setPerson] = useState(session?.person ?? null);
  useEffect(() => setPerson(session?.person ?? null), [session]);
  const { value, error, reload } = usePolled((signal) => readGateway(person, signal), `gateway ${person?.id}`);
  const reloadAll = useCallback(() => {
    reload();
    readSession().then((read) => setPerson(read?.person ?? null), notifyProblem);
  }, [reload]);
  // Charts begin when the console is opened, not when they are first shown.
  if (value?.system) sample(value.system);
  const state: GatewayState = {
    apps: value?.apps,
    system: value?.system,
    error,
    isShared: value?.isShared ?? false,
    person,
    hasPeople: session?.people ?? true,
    ways: session?.ways,
    consoleAddress: session?.console ?? `http://svc.localhost${location.port && `:${location.port}`}/svc/`,
    hasSessions: session !== null,
    reload: reloadAll,
  };

  // Before the first paint, so that no key press is lost.
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (!(event.metaKey || event.ctrlKey) || event.key.toLowerCase() !== 'k') return;
      event.preventDefault();
      setSearching((searching) => !searching);
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);

  const title = titleOf(address, state);
  useEffect(() => {
    document.title = title;
  }, [title]);

  const leave = session === null ? null : () => signOut().then(onSignedOut);
  const [place = ''] = address.parts;
  const places = isOwners(state) ? PLACES.filter(({ id }) => id !== 'people' || session !== null) : PLACES.slice(0, 1);
  return (
    <GatewayContext.Provider value={state}>
      <button type="button" class="skip" onClick={() => document.getElementById('content')?.focus()}>
        Skip to content
      </button>
      <div class="frame">
        <header class="side">
          <a class="brand" href={hrefOf([])} aria-label="svc: all apps">
            <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
              <rect width="32" height="32" rx="9" />
              <path d="M8.5 24v-7.5a7.5 7.5 0 0 1 15 0V24M16 24v-6.5" />
            </svg>
            <strong>svc</strong>
          </a>
          <button type="button" class="search" onClick={() => setSearching(true)} aria-keyshortcuts="Control+K Meta+K">
            <Icon path="M10.5 4a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13M15.5 15.5 20 20" />
            <span>Search</span>
            <kbd>{isMac ? '⌘K' : 'Ctrl K'}</kbd>
          </button>
          <nav aria-label="Gateway">
            {places.map(({ id, text, icon }) => (
              <a key={id} href={hrefOf(id === '' ? [] : [id])} aria-current={isIn(place, id) ? 'page' : undefined}>
                <Icon path={icon} />
                <span>{text}</span>
              </a>
            ))}
            {!state.isShared && (
              <a
                href={place === 'docs' ? hrefOf(address.parts) : helpAbout(address)}
                aria-current={place === 'docs' ? 'page' : undefined}
              >
                <Icon path="M12 4a8 8 0 1 1 0 16a8 8 0 0 1 0-16M9.7 9.6a2.4 2.4 0 1 1 3.4 2.6c-.8.4-1.1.8-1.1 1.6M12 16.4h.01" />
                <span>Help</span>
              </a>
            )}
          </nav>
          <div class="side-end">
            <Health state={state} />
            <ThemeChoice />
            {leave && <AccountLink state={state} isHere={place === 'account'} />}
            {leave && (
              <Button class="small" onClick={() => void leave().catch(notifyProblem)}>
                Sign out
              </Button>
            )}
          </div>
        </header>
        <main id="content" tabindex={-1}>
          <MintedElsewhere shown={place === 'apps' || place === 'automations' ? address.parts[1] : undefined} />
          <View address={address} />
        </main>
      </div>
      {isSearching && (
        <Palette ask={(shown) => setDialog(() => shown)} signOut={leave} onClose={() => setSearching(false)} />
      )}
      {dialog?.(() => setDialog(null))}
      <FreshSignIn />
      <Notices />
    </GatewayContext.Provider>
  );
}

/** The administrator has programs to see there, but at an address that all apps share there is nothing. */
function AccountLink({ state: { person, isShared }, isHere }: { state: GatewayState; isHere: boolean }) {
  if (person === null && isShared) return null;
  return (
    <a href={hrefOf(['account'])} aria-current={isHere ? 'page' : undefined}>
      {person?.name ?? 'Account'}
    </a>
  );
}

/** The title of the browser's tab, which its history and bookmarks show too. */
function titleOf({ parts }: Address, state: GatewayState): string {
  const [place, first, second] = parts;
  const apps = place === 'apps' ? state.apps?.filter(({ id }) => id === first) : [];
  const places = [...placesOf({ ...state, apps }), ...DOCUMENT_ENTRIES];
  const name =
    places.find(({ key }) => key === hrefOf(parts))?.text ??
    (place === 'automations' && second !== undefined ? `${first}/${second}` : place === 'runs' ? 'Run' : undefined);
  return name === undefined ? 'svc' : `${name} – svc`;
}

const isMac = /Mac|iP(?:hone|ad)/.test(navigator.platform);

/** An app is one of those that the first place lists. */
const isIn = (place: string, id: string) => place === id || (id === '' && place === 'apps');

function View({ address }: { address: Address }) {
  const [place, id] = address.parts;
  if (place === undefined) return <Home />;
  if (place === 'apps' && id !== undefined) return <AppView key={id} id={id} address={address} />;
  if (place === 'automations') return <AutomationsView address={address} />;
  if (place === 'runs') return <RunsView address={address} />;
  if (place === 'docs') return <DocsView address={address} />;
  if (place === 'people') return <PeopleView />;
  if (place === 'account') return <AccountView />;
  if (place === 'system') return <SystemView address={address} />;
  return (
    <Empty title="There is nothing at this address" whole>
      <p>
        <a href={hrefOf([])}>All apps</a>
      </p>
    </Empty>
  );
}

function Icon({ path }: { path: string }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

/** The most serious problem that is known, as a link to it. */
function Health({ state: { apps, system, error } }: { state: GatewayState }) {
  if (error) return <State state="lost" text={error.message} />;
  if (system === undefined) return null;
  const down = system.processes.find(({ state }) => state !== 'running' && !RESTING.has(state));
  if (down) {
    return (
      <a href={hrefOf(['system'])}>
        <State state={down.state} text={`${down.name}: ${down.state.replaceAll('_', ' ')}`} />
      </a>
    );
  }
  const quarantined = apps?.filter(({ status }) => status === 'quarantined') ?? [];
  if (quarantined.length > 0) {
    return (
      <a href={hrefOf([])}>
        <State state="quarantined" text={`${plural(quarantined.length, 'app')} quarantined`} />
      </a>
    );
  }
  const damaged = apps?.filter(({ status }) => status === 'damaged') ?? [];
  if (damaged.length > 0) {
    return (
      <a href={hrefOf([])}>
        <State state="damaged" text={`Data of ${plural(damaged.length, 'app')} damaged`} />
      </a>
    );
  }
  if (isDiskNearlyFull(system)) {
    return (
      <a href={hrefOf([])}>
        <State state="failed" text="Disk nearly full" />
      </a>
    );
  }
  if (system.backups.state === 'failed') {
    return (
      <a href={hrefOf(['system', 'backups'])}>
        <State state="failed" text="Last backup failed" />
      </a>
    );
  }
  return <State state="ok" text="All systems running" />;
}
