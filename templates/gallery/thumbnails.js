/** Makes small pictures of photos, in the browser. */
const EDGE = 480;

/** `width` and `height` of the photo, and a smaller picture of it: null where it is small enough, or the browser cannot draw it. */
export async function thumbnailOf(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    // An SVG has no pixels, and is small; anything else that the browser cannot draw it cannot show either.
    if (file.type === 'image/svg+xml') return { thumbnail: null };
    throw new Error(`This browser cannot show “${file.name}”.`);
  }
  try {
    const { width, height } = bitmap;
    const scale = EDGE / Math.min(width, height);
    if (scale >= 1) return { width, height, thumbnail: null };
    const canvas = document.createElement('canvas');
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext('2d');
    context.imageSmoothingQuality = 'high';
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    const thumbnail = await new Promise((resolve) => canvas.toBlob(resolve, 'image/webp', 0.82));
    return { width, height, thumbnail };
  } finally {
    bitmap.close();
  }
}
