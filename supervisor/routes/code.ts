/** The code of all apps with its history, as a git bundle (decisions, section 7). */
import type { Logger } from 'pino';
import { LIMITS } from '../../protocol/limits.ts';
import type { CodeTransfer } from '../authoring/code-transfer.ts';
import { answerJson } from '../http/answers.ts';
import type { Route } from '../http/router.ts';
import { originOf } from './requests.ts';
import { sendFile } from './send-file.ts';

export type CodeRoutesOptions = {
  /** Throws `NO_GIT_STORE` on the other backend. */
  code(): CodeTransfer;
  listening(): { url: string } | null;
  log: Pick<Logger, 'warn'>;
};

export function codeRoutes({ code, listening, log }: CodeRoutesOptions): Route[] {
  return [
    {
      method: 'POST',
      path: '/svc/_code/export',
      needs: 'admin',
      summary: 'The code of all apps with its history, as a git bundle.',
      handle: async (exchange) => {
        const gone = new AbortController();
        exchange.onAbort(() => gone.abort());
        await code().export((path) => sendFile(exchange, { path, type: 'application/x-git-bundle' }, gone.signal, log));
      },
    },
    {
      method: 'POST',
      path: '/svc/_code/import',
      needs: 'admin',
      summary: 'Take the apps of a git bundle into a gateway that has none, and make them live.',
      handle: async (exchange) => {
        const origin = originOf(exchange, listening());
        const body = exchange.streamBody(LIMITS.gitBundleBytes, LIMITS.uploadTimeoutMs);
        try {
          answerJson(exchange, 201, await code().import(body, origin));
        } finally {
          body.destroy();
        }
      },
    },
  ];
}
