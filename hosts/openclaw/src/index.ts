/** The plugin: registers svc's routes, tools, guard, service and command with OpenClaw. It may be called more than once. */
import { definePluginEntry } from 'openclaw/plugin-sdk/plugin-entry';
import { addCommand, COMMAND } from './command.ts';
import type { PluginApi } from './host-api.ts';
import { CONFIG_PATH, PLUGIN } from './settings.ts';
import { theSvc } from './svc.ts';
import { registerTools } from './tools.ts';

/** All that a gateway answers at; nothing else of the host's server. */
const PREFIXES = ['/svc', '/_svc-conversations', '/_svc-user', '/_svc-hook'];

// biome-ignore lint/style/noDefaultExport: the host takes the default export
export default definePluginEntry({
  id: PLUGIN,
  name: 'svc',
  description: 'A gateway for many small apps: their pages, tools, automations and data.',
  register(api: PluginApi) {
    api.registerCli(({ program, config }) => addCommand(program, config), { descriptors: [COMMAND] });
    if (api.registrationMode === 'cli-metadata') return;
    const svc = theSvc();
    registerTools(api, (...call) => svc.callTool(...call));
    if (api.registrationMode !== 'full') return;
    // A session or a webhook's secret is for the gateway to check, so the host must let these through.
    for (const path of PREFIXES)
      api.registerHttpRoute({ path, auth: 'plugin', match: 'prefix', handler: (req, res) => svc.handle(req, res) });
    // Of its configuration only the service is told, which keeps what can stay.
    api.registerReload({ hotPrefixes: [CONFIG_PATH] });
    api.registerService({
      id: PLUGIN,
      reload: { configPrefixes: [CONFIG_PATH] },
      start: (ctx) => svc.start(api, ctx),
      stop: () => svc.stop(),
    });
  },
});
