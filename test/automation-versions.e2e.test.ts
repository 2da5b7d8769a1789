/**
 * Runs while the app gets another version: the permissions of a run are those of the version whose code it runs
 * (specification, "Context of a fire").
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appOf, automation } from '../testing/apps.ts';
import { onEachStore } from '../testing/edges.ts';

const VERSIONS = 4;

/** The automation says which version's code it is, and whether it may read. */
function version(name: string, requires: object): Record<string, string | Buffer> {
  return appOf('swapped', {
    manifest: { version: name },
    queries: { which: `() => "${name}"` },
    files: {
      'automations/x/automation.json': automation({ requires }),
      'automations/x/handler.js': `export default ({ ctx }) => ctx.tool('svc_read', { app: 'swapped', query: 'which' }).then(
        () => ({ summary: '${name} may' }), ({ code }) => ({ summary: '${name} ' + code }));`,
    },
  });
}

onEachStore({}, (gateway) => {
  test('no run has the code of a new version with the permissions of the one before', async () => {
    const run = async () => (await gateway.call('POST', '/svc/_automations/swapped/x/run?wait=1', { body: {} })).json;
    const seen = new Set<string>();
    for (let i = 0; i < VERSIONS; i++) {
      await gateway.upload('swapped', version(`free${i}`, {}));
      // So that the upload below has a thread to replace, and takes its time.
      await gateway.call('POST', '/svc/_tool/svc_read', { body: { app: 'swapped', query: 'which' } });
      assert.equal((await run()).summary, `free${i} may`);
      const state = { uploading: true };
      const running = (async () => {
        while (state.uploading) seen.add(String((await run()).summary));
      })();
      await gateway.upload('swapped', version(`bound${i}`, { tools: [] }));
      state.uploading = false;
      await running;
      assert.equal((await run()).summary, `bound${i} TOOL_REFUSED`);
    }
    assert.deepEqual(
      [...seen].filter((summary) => /^bound\d may/.test(summary)),
      [],
    );
  });
});
