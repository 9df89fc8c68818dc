// Products with weights of one type, and single rows of them, from the panels of src/kernels/layout.h. What a type is
// like comes as macros: see DefinesOf in ../ops.cc.

#if WIDTH != 0

// Elements are [k][16].
DEVICE ulong PanelBytes(int k) { return ((ulong)k * PANEL_COLS * WIDTH + 63) / 64 * 64; }

// Element i of column c.
DEVICE float Weight(GLOBAL const uchar *panel, int i, int c) {
  const int at = i * PANEL_COLS + c;
#if WIDTH == 4
  return ((GLOBAL const float *)panel)[at];
#elif IS_BF16
  return AS_FLOAT((uint)((GLOBAL const ushort *)panel)[at] << 16);
#else
  return HalfToFloat(((GLOBAL const ushort *)panel)[at]);
#endif
}

#else  // Quantised.

#define BLOCK 32
#define BLOCK_WORDS (BLOCK / 4)
#define PART_WORDS (BLOCK_WORDS / PARTS)
#define LINE 64  // Bytes: 4 of each column.
// From d to m, and from the first codes to the second.
#define MIN_AT 32
#define CODES_AT 16
// In the order of ScaleKind.
#define HALF_SCALE 0
#define CODED_SCALE 1
#define PARTS_CODED_SCALE 2
#define NIBBLE_CODED_SCALE 3
#define EXPONENT_SCALE 4

// Levels here are signed bytes, and a weight is what is left of them after this offset.
#if HAS_VALUES || OFFSET == 128
#define LEVEL_OFFSET 0
#else
#define LEVEL_OFFSET OFFSET
#endif

#if HAS_VALUES
CONSTANT uchar kValues[16] = {VALUES};  // Plus OFFSET.
#endif

DEVICE ulong PanelBytes(int k) {
  return (ulong)((k / BLOCK + UNIT_BLOCKS - 1) / UNIT_BLOCKS) * UNIT_BYTES;
}

DEVICE GLOBAL const uchar *UnitOf(GLOBAL const uchar *panel, int b) {
  return panel + (ulong)(b / UNIT_BLOCKS) * UNIT_BYTES;
}

DEVICE uint Line(GLOBAL const uchar *lines, int line, int c) {
  return ((GLOBAL const uint *)(lines + line * LINE))[c];
}

// What stands for four levels as the lines hold them, as signed bytes.
DEVICE uint SignedLevels(uint w) {
#if HAS_VALUES
  uint values = 0;
  for (int i = 0; i < 4; ++i) {
    values |= (((uint)kValues[(w >> (8 * i)) & 15] - OFFSET) & 0xFFu) << (8 * i);
  }
  return values;
#elif OFFSET == 128
  return w ^ 0x80808080u;
#else
  return w;
#endif
}

// Levels 4j .. 4j + 3 of column c of block b.
DEVICE uint Levels(GLOBAL const uchar *panel, int b, int c, int j) {
  GLOBAL const uchar *lines = UnitOf(panel, b) + LINES + b % UNIT_BLOCKS * (BITS * LINE);
#if BITS == 8
  return SignedLevels(Line(lines, j, c));
#else
  uint w = 0;
#if BITS >= 4
#define LOW_BITS 4
  w = (Line(lines, j % 4, c) >> (j / 4 * 4)) & 0x0F0F0F0Fu;
#else
#define LOW_BITS 0
#endif
#if BITS - LOW_BITS >= 2
  w |= ((Line(lines, LOW_BITS + j / 4, c) >> (j % 4 * 2)) & 0x03030303u) << LOW_BITS;
#endif
#if (BITS - LOW_BITS) % 2 == 1
  w |= ((Line(lines, BITS - 1, c) >> j) & 0x01010101u) << (BITS - 1);
#endif
  return SignedLevels(w);
#endif
}

// The scale and the minimum of a part of column c of block b. Of types without a minimum it is 0.
DEVICE float LoadScale(GLOBAL const uchar *panel, int b, int c, int part, float *min_) {
  GLOBAL const uchar *unit = UnitOf(panel, b);
  GLOBAL const uchar *codes = unit + CODES + b % UNIT_BLOCKS * CODE_STEP + c;
  *min_ = 0.0f;
#if SCALE_KIND == EXPONENT_SCALE
  const uint e = codes[0];
  return AS_FLOAT(e < 2 ? 0x200000u << e : (e - 1) << 23);  // 2^(e - 128)
#else
  GLOBAL const uchar *scales = unit + b % UNIT_BLOCKS * SCALE_STEP;
  const float d = HalfToFloat(((GLOBAL const ushort *)scales)[c]);
#if HAS_MIN
  const float m = HalfToFloat(((GLOBAL const ushort *)(scales + MIN_AT))[c]);
#endif
#if SCALE_KIND == HALF_SCALE
#if HAS_MIN
  *min_ = m;
#endif
  return d;
#elif SCALE_KIND == CODED_SCALE
#if HAS_MIN
  *min_ = m * (float)(SCHAR)codes[CODES_AT];
#endif
  return d * (float)(SCHAR)codes[0];
#elif SCALE_KIND == PARTS_CODED_SCALE
  return d * (float)(SCHAR)codes[part * CODES_AT];
#else  // NIBBLE_CODED_SCALE
  const int code = codes[part * CODES_AT];
  *min_ = m * (float)(code >> 4);
  return d * (float)(code & 15);
#endif
#endif
}

// One column of a block.
typedef struct {
  uint levels[BLOCK_WORDS];
  float scale[PARTS];
  float min[PARTS];
} Column;

DEVICE void LoadColumn(GLOBAL const uchar *panel, int b, int c, Column *column) {
  for (int j = 0; j < BLOCK_WORDS; ++j) column->levels[j] = Levels(panel, b, c, j);
  for (int part = 0; part < PARTS; ++part) {
    column->scale[part] = LoadScale(panel, b, c, part, &column->min[part]);
  }
}

// The product of a column's block and a row's is a * b, and what AddMins adds. Of the row's block: its levels, its scale
// and the sums of its halves.
DEVICE void Multiply(const Column *w, GLOBAL const uint *from, float d, int sum0, int sum1, float *a, float *b) {
  GLOBAL const uint *levels = ALIGNED(GLOBAL const uint, from, 16);
  int dot[PARTS];
  for (int part = 0; part < PARTS; ++part) {
    dot[part] = 0;
    for (int j = part * PART_WORDS; j < (part + 1) * PART_WORDS; ++j) dot[part] += Dot4(w->levels[j], levels[j]);
  }
#if PARTS == 2
  const float u = w->scale[0] * (float)(dot[0] - LEVEL_OFFSET * sum0);
  *a = FMA(w->scale[1], (float)(dot[1] - LEVEL_OFFSET * sum1), u);
  *b = d;
#else
  *a = w->scale[0] * d;
  *b = (float)(dot[0] - LEVEL_OFFSET * (sum0 + sum1));
#endif
}

// min0, min1: of the column's parts. Only the first counts in types of one part.
DEVICE float AddMins(float min0, float min1, float d, int sum0, int sum1, float acc) {
#if HAS_MIN && PARTS == 2
  acc = FMA(min0, d * (float)sum0, acc);
  return FMA(min1, d * (float)sum1, acc);
#elif HAS_MIN
  return FMA(min0, d * (float)(sum0 + sum1), acc);
#else
  return acc;
#endif
}

#endif

// The matrix of this index.
DEVICE ulong MatrixAt(int index, int n, int k) {
  return (ulong)index * ((n + PANEL_COLS - 1) / PANEL_COLS) * PanelBytes(k);
}

// Group (x, y) has rows x * tile and following, at most TILE_ROWS, and columns y * LANES() and following; a lane has
// one column. With ids, tile is 1, since rows have their own matrices.
KERNEL(MATMUL_LANES) matmul(VIEW(panels), int n, int k, VIEW(bias), VIEW(x), int x_stride, VIEW(levels), VIEW(scales), VIEW(sums),
              VIEW(ids), int shared_by, int rows, int tile, VIEW(y), int y_stride) {
  const int first = GROUP_X() * tile;
  const int count = rows - first < tile ? rows - first : tile;
  const int column = GROUP_Y() * LANES() + LANE();
  if (column >= n) return;
  const int c = column % PANEL_COLS;
  const int matrix = ids_base != 0 ? AT(const int, ids)[first] : 0;
  GLOBAL const uchar *panel =
      AT(const uchar, panels) + MatrixAt(matrix, n, k) + (ulong)(column / PANEL_COLS) * PanelBytes(k);
  float acc[TILE_ROWS];
  ulong from[TILE_ROWS];  // The rows of the input; beyond `count` the first one.
  for (int r = 0; r < TILE_ROWS; ++r) {
    acc[r] = 0.0f;
    from[r] = (ulong)((first + (r < count ? r : 0)) / shared_by);
  }
#if WIDTH != 0
  for (int i = 0; i < k; ++i) {
    const float w = Weight(panel, i, c);
    for (int r = 0; r < TILE_ROWS; ++r) {
      if (r < count) acc[r] = FMA(w, AT(const float, x)[from[r] * (ulong)x_stride + i], acc[r]);
    }
  }
#else
  const int blocks = k / BLOCK;
  for (int b = 0; b < blocks; ++b) {
    Column w;
    LoadColumn(panel, b, c, &w);
    for (int r = 0; r < TILE_ROWS; ++r) {
      if (r >= count) continue;
      const ulong at = from[r] * (ulong)blocks + b;
      const float d = AT(const float, scales)[at];
      GLOBAL const int *sum = AT(const int, sums) + 2 * at;
      float a, factor;
      Multiply(&w, AT(const uint, levels) + at * BLOCK_WORDS, d, sum[0], sum[1], &a, &factor);
      acc[r] = AddMins(w.min[0], w.min[PARTS - 1], d, sum[0], sum[1], FMA(a, factor, acc[r]));
    }
  }
#endif
  for (int r = 0; r < TILE_ROWS; ++r) {
    if (r >= count) continue;
    float result = acc[r];
    if (bias_base != 0) result = result + AT(const float, bias)[(ulong)matrix * n + column];
    AT(float, y)[(ulong)(first + r) * (ulong)y_stride + column] = result;
  }
}

// The same for few rows, so that a GPU has enough to do: the lanes of a group share the blocks of 16 columns, and what
// they found is added up in the blocks' order. Group (x, y) has the rows as above and panel y. Types that are not
// quantised do without: their sums are chains of single features, which nothing can be taken out of.
#if WIDTH == 0
KERNEL(FEW_LANES) matmul_few(VIEW(panels), int n, int k, VIEW(bias), VIEW(levels), VIEW(scales), VIEW(sums), VIEW(ids),
                  int shared_by, int rows, int tile, VIEW(y), int y_stride) {
  SHARED float products[2][TILE_ROWS][SLICES][PANEL_COLS];  // a, then b.
  SHARED float mins[PARTS][SLICES][PANEL_COLS];
  const int first = GROUP_X() * tile;
  const int count = rows - first < tile ? rows - first : tile;
  const int c = LANE() % PANEL_COLS;
  const int column = GROUP_Y() * PANEL_COLS + c;
  const int slice = LANE() / PANEL_COLS;  // And the row of the tile that the lane adds up.
  const int matrix = ids_base != 0 ? AT(const int, ids)[first] : 0;
  GLOBAL const uchar *panel = AT(const uchar, panels) + MatrixAt(matrix, n, k) + (ulong)GROUP_Y() * PanelBytes(k);
  const int blocks = k / BLOCK;
  const ulong own = (ulong)((first + (slice < count ? slice : 0)) / shared_by) * (ulong)blocks;
  float acc = 0.0f;
  for (int begin = 0; begin < blocks; begin += SLICES) {
    const int b = begin + slice;
    if (b < blocks) {
      Column w;
      LoadColumn(panel, b, c, &w);
      for (int part = 0; part < PARTS; ++part) mins[part][slice][c] = w.min[part];
      for (int r = 0; r < TILE_ROWS; ++r) {
        if (r >= count) continue;
        const ulong at = (ulong)((first + r) / shared_by) * (ulong)blocks + b;
        GLOBAL const int *sum = AT(const int, sums) + 2 * at;
        float a, factor;
        Multiply(&w, AT(const uint, levels) + at * BLOCK_WORDS, AT(const float, scales)[at], sum[0], sum[1], &a,
                 &factor);
        products[0][r][slice][c] = a;
        products[1][r][slice][c] = factor;
      }
    }
    BARRIER();
    if (slice < count) {
      const int end = blocks - begin < SLICES ? blocks - begin : SLICES;
      for (int s = 0; s < end; ++s) {
        const ulong at = own + begin + s;
        GLOBAL const int *sum = AT(const int, sums) + 2 * at;
        acc = FMA(products[0][slice][s][c], products[1][slice][s][c], acc);
        acc = AddMins(mins[0][s][c], mins[PARTS - 1][s][c], AT(const float, scales)[at], sum[0], sum[1], acc);
      }
    }
    BARRIER();
  }
  if (slice < count && column < n) {
    if (bias_base != 0) acc = acc + AT(const float, bias)[(ulong)matrix * n + column];
    AT(float, y)[(ulong)(first + slice) * (ulong)y_stride + column] = acc;
  }
}
#endif

// Group (x, y) has elements y * LANES() and following of row ids[x]; a lane has one.
KERNEL(MATMUL_LANES) unpack(VIEW(panels), int k, VIEW(ids), VIEW(y), int y_stride) {
  const int i = GROUP_Y() * LANES() + LANE();
  if (i >= k) return;
  const int row = AT(const int, ids)[GROUP_X()];
  const int c = row % PANEL_COLS;
  GLOBAL const uchar *panel = AT(const uchar, panels) + (ulong)(row / PANEL_COLS) * PanelBytes(k);
#if WIDTH != 0
  const float weight = Weight(panel, i, c);
#else
  const int b = i / BLOCK;
  const uint level = Levels(panel, b, c, i % BLOCK / 4) >> (i % 4 * 8);
  const float q = (float)((SCHAR)level - LEVEL_OFFSET);
  float min_ = 0.0f;
  const float scale = LoadScale(panel, b, c, i % BLOCK / (BLOCK / 2), &min_);
#if HAS_MIN
  const float weight = FMA(scale, q, min_);
#else
  const float weight = scale * q;
#endif
#endif
  AT(float, y)[(ulong)GROUP_X() * (ulong)y_stride + i] = weight;
}
