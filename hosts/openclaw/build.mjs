// Builds the two parts of the plugin: what the host loads, and the process of its gateway, which runs beside svc-gateway's package.
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const common = {
  absWorkingDir: here,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node22.12',
  external: ['svc-gateway', 'openclaw'],
  logLevel: 'warning',
};

export const buildPlugin = (outdir) => build({ ...common, outdir, entryPoints: { index: 'src/index.ts' } });

export const buildGatewayProcess = (outdir) =>
  build({ ...common, outdir, entryPoints: { 'gateway-process': 'src/process/gateway-process.ts' } });
