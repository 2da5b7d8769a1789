/** Sends a file to the gateway and says how far it is, which `fetch` does not tell. */
import { errorIn } from '../protocol/http/client.ts';
import { keyHeaders } from './bridge/page-key.ts';
import { refusal, unreachable } from './gateway.ts';

type Upload = {
  method: 'POST' | 'PUT';
  address: string;
  file: File;
  type: string;
  /** Called with the part that is sent, from 0 to 1. */
  onProgress: (done: number) => void;
  signal?: AbortSignal;
};

/** Resolves to the answer. Rejects with a `GatewayError`. */
export function upload<T>({ method, address, file, type, onProgress, signal }: Upload): Promise<T> {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open(method, address);
    xhr.responseType = 'json';
    for (const [name, value] of Object.entries(keyHeaders())) xhr.setRequestHeader(name, value);
    xhr.setRequestHeader('content-type', type);
    xhr.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 1 : loaded / total);
    xhr.onloadend = () => {
      const { status, response } = xhr;
      if (status === 200 || status === 201) return resolve(response);
      reject(status === 0 ? unreachable(CUT_OFF) : refusal(status, errorIn(response)));
    };
    signal?.addEventListener('abort', () => xhr.abort());
    xhr.send(file);
  });
}

const CUT_OFF = 'The connection ended before it was stored.';
