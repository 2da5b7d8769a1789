/** The console's views of an app and its backups, driven in a browser: suites with apps of their own on one gateway. */
import { describe } from 'node:test';
import { gatewayOfSuite } from '../../testing/edges.ts';
import { backupsSuite } from './console-backups.ts';
import { dataSuite } from './console-data.ts';
import { filesSuite } from './console-files.ts';
import { logsSuite } from './console-logs.ts';
import { overviewSuite } from './console-overview.ts';
import { removalSuite, settingsSuite } from './console-settings.ts';
import { toolsSuite } from './console-tools.ts';

describe('the console', () => {
  const gateway = gatewayOfSuite({});
  backupsSuite(gateway);
  overviewSuite(gateway);
  toolsSuite(gateway);
  dataSuite(gateway);
  logsSuite(gateway);
  filesSuite(gateway);
  settingsSuite(gateway);
  removalSuite(gateway, 'tarball');
});
