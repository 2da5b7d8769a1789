/** Restarts an app, then reads its state again. */
import { gateway } from '../gateway.ts';
import { useGateway } from '../gateway-state.tsx';
import { notify } from '../ui/notice.tsx';
import { useWork, type Work } from '../work.ts';
import type { AppDetail } from './views.ts';

export async function restartApp({ id, name }: Pick<AppDetail, 'id' | 'name'>): Promise<void> {
  await gateway.call('POST /svc/_apps/:id/restart', { params: { id } });
  notify(`${name} is restarted.`);
}

export function useRestart(
  app: AppDetail,
  reload: () => void,
): Pick<Work, 'isBusy' | 'error'> & { restart: () => Promise<void> } {
  const { isBusy, error, run } = useWork();
  const { reload: reloadGateway } = useGateway();
  const restart = async () => {
    if (!(await run(() => restartApp(app)))) return;
    reload();
    reloadGateway();
  };
  return { isBusy, error, restart };
}
