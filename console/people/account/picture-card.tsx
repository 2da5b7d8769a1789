/** The picture of who is signed in: shown, chosen and removed. */
import { useRef } from 'preact/hooks';
import type { RowIn } from '../../../protocol/routes/api.ts';
import { gateway } from '../../gateway.ts';
import { notify } from '../../ui/notice.tsx';
import { Button, Card, Problem } from '../../ui/parts.tsx';
import { useWork } from '../../work.ts';
import { Portrait } from '../portrait.tsx';

type Person = RowIn<'GET /svc/_people'>;

const SELF = { pid: 'me' };
const PIXELS = 256;

/** The middle of a picture, as a small JPEG. Rejects where the browser cannot read it. */
async function scaled(file: File): Promise<Uint8Array> {
  const picture = await createImageBitmap(file).catch(() => {
    throw new Error('The browser cannot read this as a picture. Take a PNG, JPEG or WebP.');
  });
  const canvas = Object.assign(document.createElement('canvas'), { width: PIXELS, height: PIXELS });
  const drawing = canvas.getContext('2d') as CanvasRenderingContext2D;
  const side = Math.min(picture.width, picture.height);
  const [left, top] = [(picture.width - side) / 2, (picture.height - side) / 2];
  // JPEG has no transparency.
  drawing.fillStyle = 'white';
  drawing.fillRect(0, 0, PIXELS, PIXELS);
  drawing.drawImage(picture, left, top, side, side, 0, 0, PIXELS, PIXELS);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/jpeg', 0.9));
  return new Uint8Array(await (blob as Blob).arrayBuffer());
}

export function PictureCard({ person, onChanged }: { person: Person; onChanged: () => void }) {
  const input = useRef<HTMLInputElement>(null);
  const { isBusy, error, run } = useWork();
  const choose = (file: File | undefined) =>
    file !== undefined &&
    run(async () => {
      await gateway.call('PUT /svc/_people/:pid/picture', { params: SELF, body: await scaled(file) });
      notify('Your picture is changed.');
      onChanged();
    });
  const remove = () =>
    run(async () => {
      await gateway.call('DELETE /svc/_people/:pid/picture', { params: SELF });
      notify('Your picture is removed.');
      onChanged();
    });
  return (
    <Card title="Picture">
      <div class="stack">
        <div class="line">
          <Portrait {...person} />
          <Button disabled={isBusy} onClick={() => input.current?.click()}>
            Choose a picture…
          </Button>
          {person.picture !== null && (
            <Button disabled={isBusy} onClick={() => void remove()}>
              Remove the picture
            </Button>
          )}
          <input
            ref={input}
            type="file"
            accept="image/png,image/jpeg,image/webp"
            aria-label="Picture"
            hidden
            onChange={({ currentTarget }) => {
              void choose(currentTarget.files?.[0]);
              currentTarget.value = '';
            }}
          />
        </div>
        <Problem error={error} />
        <p class="hint">Owners of this gateway see it, and so may the apps that you use.</p>
      </div>
    </Card>
  );
}
