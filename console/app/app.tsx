/** One app: its name and state, and the tabs of its views. */
import type { ComponentType } from 'preact';
import { useRef } from 'preact/hooks';
import { route } from '../../protocol/http/addresses.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import { type Address, hrefOf } from '../address.ts';
import { AutomationList } from '../automations/automation-list.tsx';
import { NewLink } from '../automations/automation-parts.tsx';
import { lazy } from '../frame/lazy.tsx';
import { type GatewayError, gateway } from '../gateway.ts';
import { isOwners, manages, useGateway } from '../gateway-state.tsx';
import { usePolled } from '../polled.ts';
import { Minted } from '../ui/minted.tsx';
import { Empty, Loading, Problem, State, Tabs, Tile } from '../ui/parts.tsx';
import { Overview } from './overview.tsx';
import { type AppDetail, type AppViewId, type AppViewProps, viewsOf } from './views.ts';

const ToolsView = lazy<AppViewProps>(async () => (await import('./tools/tools.tsx')).ToolsView);
const AppDataView = lazy<AppViewProps>(async () => (await import('./data/data.tsx')).AppDataView);
const CodeView = lazy<AppViewProps>(async () => (await import('./code/code.tsx')).CodeView);
const ChatView = lazy<AppViewProps>(async () => (await import('./chat/chat.tsx')).ChatView);
const LogsView = lazy<AppViewProps>(async () => (await import('./logs/logs.tsx')).LogsView);
const FilesView = lazy<AppViewProps>(async () => (await import('./files/kept-files.tsx')).FilesView);
const SettingsView = lazy<AppViewProps>(async () => (await import('./settings/settings.tsx')).SettingsView);

const VIEWS: Record<AppViewId, ComponentType<AppViewProps>> = {
  overview: Overview,
  tools: ToolsView,
  data: AppDataView,
  code: CodeView,
  automations: ({ app }) => (
    <>
      <p class="line end list-acts">
        <NewLink app={app.id} />
      </p>
      <AutomationList app={app.id} />
    </>
  ),
  logs: LogsView,
  chat: ChatView,
  files: FilesView,
  settings: SettingsView,
};

/** The app by its own description, where its record may not be read. */
async function describedApp(id: string, role: string | undefined, signal: AbortSignal): Promise<AppDetail> {
  const { data } = await gateway.call('POST /svc/_tool/svc_describe', { body: { app: id } }, { signal });
  const manifest = data as Extract<typeof data, Manifest>;
  return {
    ...{ id, name: manifest.name, version: '', kind: 'app', backend: 'tarball', status: 'active', activeVersion: '' },
    ...{ registeredAt: 0, updatedAt: 0, queries: 0, actions: 0, automations: 0 },
    ...(role !== undefined && { role }),
    manifest,
  };
}

export function AppView({ id, address }: { id: string; address: Address }) {
  const state = useGateway();
  const listed = state.apps?.find((one) => one.id === id);
  // Until the list is there, or where it lacks the app, nothing is known of what may be done.
  const role = listed === undefined && !isOwners(state) ? 'viewer' : listed?.role;
  const known = role === undefined ? {} : { role };
  const isManaged = manages(state, known);
  const load = (signal: AbortSignal) =>
    isManaged ? gateway.call('GET /svc/_apps/:id', { params: { id } }, { signal }) : describedApp(id, role, signal);
  const { value, error, reload } = usePolled(load, `${id} ${isManaged}`);
  const views = viewsOf(state, known);
  const current = address.parts[2] ?? views[0]?.id ?? '';
  const isAllowed = views.some(({ id: view }) => view === current);
  /** What is shown. When the role for it is taken away it stays, with what was typed there. */
  const shown = useRef<{ app?: AppDetail; view?: string }>({});
  if (value) shown.current.app = value;
  const { app } = shown.current;
  if (app && isAllowed) shown.current.view = current;
  const isTaken = error?.status === 403 || (!isAllowed && shown.current.view === current);
  // Also when somebody else removes it while this view is open.
  if (error?.code === 'UNKNOWN_APP') return <Gone id={id} />;
  // Whether the record may be read is known once the gateway has answered.
  if (!app) return error && error.status !== 403 ? <Problem error={error} retry={reload} /> : <Loading />;
  const View = isAllowed || isTaken ? VIEWS[current as AppViewId] : undefined;
  return (
    <div class="app-view">
      <Head app={app} />
      <Tabs
        label={`Views of ${app.name}`}
        current={current}
        tabs={views.map(({ id: view, text }, at) => ({
          id: view,
          text,
          href: hrefOf(at === 0 ? ['apps', id] : ['apps', id, view]),
        }))}
      />
      {/* The chat has its own place for them. */}
      {current !== 'chat' && <Minted app={app.id} onKept={() => document.getElementById('content')?.focus()} />}
      {isTaken && <Taken error={error} />}
      {View ? <View app={app} address={address} reload={reload} /> : <Empty title="The app has no such view" />}
    </div>
  );
}

function Head({ app }: { app: AppDetail }) {
  return (
    <header class="app-head">
      <Tile {...app} />
      <div class="app-title">
        <div class="line">
          <h1>{app.name}</h1>
          {app.status !== 'active' && <State state={app.status} />}
        </div>
        <p class="hint">
          <code>{app.id}</code> {app.version && `v${app.version}`}
        </p>
      </div>
      {app.activeVersion !== null && (
        <a class="button primary" href={route`/svc/${app.id}/`}>
          Open
        </a>
      )}
    </header>
  );
}

function Gone({ id }: { id: string }) {
  return (
    <Empty title={`There is no app “${id}”`} whole>
      <p>
        It may have been removed. <a href={hrefOf([])}>All apps</a>
        {isOwners(useGateway()) && (
          <>
            {' '}
            or the <a href={hrefOf(['system', 'trash'])}>trash</a>
          </>
        )}
      </p>
    </Empty>
  );
}

function Taken({ error }: { error: GatewayError | undefined }) {
  return (
    <p class="problem" role="alert">
      {error?.status === 403 ? error.message : 'Your role in this app does not allow this any more.'} What you typed
      here stays until you leave this page.
    </p>
  );
}
