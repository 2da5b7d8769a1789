/** Does what needs a fresh sign-in: has somebody asked who is there where the gateway wants that, and goes on. */
import { GatewayError } from '../../gateway.ts';

export type Asked = { confirmed: () => void; closed: () => void };

let ask: (asked: Asked) => void = ({ closed }) => closed();

/** Says what asks, while there is something that can. */
export function setAsking(asking: ((asked: Asked) => void) | null): void {
  ask = asking ?? (({ closed }) => closed());
}

/** Rejects with what `work` does, and with the gateway's refusal where nobody confirms. */
export async function fresh<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'FRESH_SIGN_IN_NEEDED') throw error;
    await new Promise<void>((confirmed, reject) => ask({ confirmed, closed: () => reject(error) }));
    return work();
  }
}
