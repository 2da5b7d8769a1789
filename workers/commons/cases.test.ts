/** The files of cases of handlers, with apps that begin in the commons: what is seen is the same as in a thread. */
import { beginIn } from '../../testing/fake-supervisor.ts';

beginIn('commons');
await import('../handler/calls.test.ts');
await import('../handler/globals.test.ts');
await import('../handler/web-globals.test.ts');
await import('../handler/modules.test.ts');
await import('../handler/result.test.ts');
await import('../handler/thrown.test.ts');
await import('../handler/context/context-database.test.ts');
await import('../handler/context/context-secrets.test.ts');
await import('../handler/egress.test.ts');
await import('../handler/hostile.test.ts');
