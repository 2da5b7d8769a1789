/** One app: its name and state, and the tabs of its views. */
import type { ComponentType } from 'preact';
import { route } from '../../protocol/http/addresses.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import { type Address, hrefOf } from '../address.ts';
import { AutomationList } from '../automations/automation-list.tsx';
import { NewLink } from '../automations/automation-parts.tsx';
import { lazy } from '../frame/lazy.tsx';
import { gateway } from '../gateway.ts';
import { useGateway } from '../gateway-state.tsx';
import { usePolled } from '../polled.ts';
import { Minted } from '../ui/minted.tsx';
import { Empty, Loading, Problem, State, Tabs, Tile } from '../ui/parts.tsx';
import { Overview } from './overview.tsx';
import { APP_VIEWS, type AppDetail, type AppViewId, type AppViewProps, SHARED_VIEWS } from './views.ts';

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
async function describedApp(id: string, signal: AbortSignal): Promise<AppDetail> {
  const { data } = await gateway.call('POST /svc/_tool/svc_describe', { body: { app: id } }, { signal });
  const manifest = data as Extract<typeof data, Manifest>;
  return {
    ...{ id, name: manifest.name, version: '', kind: 'app', backend: 'tarball', status: 'active', activeVersion: '' },
    ...{ registeredAt: 0, updatedAt: 0, queries: 0, actions: 0, automations: 0 },
    manifest,
  };
}

export function AppView({ id, address }: { id: string; address: Address }) {
  const { isShared } = useGateway();
  const load = (signal: AbortSignal) =>
    isShared ? describedApp(id, signal) : gateway.call('GET /svc/_apps/:id', { params: { id } }, { signal });
  const { value: app, error, reload } = usePolled(load, `${id} ${isShared}`);
  const views = APP_VIEWS.filter(({ id: view }) => !isShared || SHARED_VIEWS.has(view));
  const current = address.parts[2] ?? views[0]?.id ?? '';
  // Also when somebody else removes it while this view is open.
  if (error?.code === 'UNKNOWN_APP') {
    return (
      <Empty title={`There is no app “${id}”`} whole>
        <p>
          It may have been removed. <a href={hrefOf([])}>All apps</a>
          {!isShared && (
            <>
              {' '}
              or the <a href={hrefOf(['system', 'trash'])}>trash</a>
            </>
          )}
        </p>
      </Empty>
    );
  }
  // Whether the record may be read is known once the gateway has answered.
  if (!app) return error && error.status !== 403 ? <Problem error={error} retry={reload} /> : <Loading />;
  const View = views.some(({ id: view }) => view === current) ? VIEWS[current as AppViewId] : undefined;
  return (
    <div class="app-view">
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
          <a class="button primary" href={route`/svc/${id}/`}>
            Open
          </a>
        )}
      </header>
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
      {View ? <View app={app} address={address} reload={reload} /> : <Empty title="The app has no such view" />}
    </div>
  );
}
