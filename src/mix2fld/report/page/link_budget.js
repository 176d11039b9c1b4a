// The link budget in closed form, as `mix2fld link` has it: Rayleigh block fading, P(T <= t) = P(Binomial(t, q) >= n).

const watts = (dbm) => 10 ** ((dbm - 30) / 10);

// One direction as one device has it when so many transmit: they share the uplink, not the downlink.
function radioOf(link, direction) {
  const up = direction === "uplink";
  const shares = up ? Math.max(1, link.transmitting) : 1;
  const bandwidth = (link.bandwidth_hz * (up ? link.uplink_channels : 1)) / shares;
  const power = watts(up ? link.uplink_power_dbm : link.downlink_power_dbm);
  const snr = (power * link.distance_m ** -link.path_loss_exponent) / (bandwidth * link.noise_w_per_hz);
  const threshold = up ? link.uplink_threshold : link.downlink_threshold;
  const perSlot = (link.slot_seconds * bandwidth * Math.log1p(threshold)) / Math.LN2;
  const near = Math.round(perSlot);
  return { success: Math.exp(-threshold / snr), bitsPerSlot: Math.abs(perSlot - near) <= 1e-9 * perSlot ? near : perSlot };
}

function slotsNeeded(radio, size) {
  if (Number.isInteger(radio.bitsPerSlot)) return Math.ceil(size / radio.bitsPerSlot);
  return Math.ceil((size / radio.bitsPerSlot) * (1 - 1e-9));
}

// P(T <= t) for t = 0 .. last, where a payload needs so many decoded slots.
function arrivedBy(last, needed, success) {
  const arrived = new Float64Array(last + 1);
  const [decoded, lost] = [Math.log(success), Math.log1p(-success)];
  let logChance = needed * decoded;
  let sum = 0;
  for (let t = needed; t <= last; t++) {
    sum += Math.exp(logChance);
    arrived[t] = Math.min(1, sum);
    const failed = t - needed + 1;
    logChance += Math.log(t) - Math.log(failed) + lost;
  }
  return arrived;
}

// Delivery and latency of one payload per device; a transfer that fails lasts T_max slots.
function linkBudget(link, direction, size) {
  const radio = radioOf(link, direction);
  const needed = slotsNeeded(radio, size);
  const last = link.max_slots;
  if (!needed) return { needed, success: radio.success, probability: 1, slots: 0, roundSlots: 0, fits: true };
  const arrived = arrivedBy(last, Math.min(needed, last + 1), radio.success);
  let [slots, roundSlots] = [0, 0];
  for (let t = 0; t < last; t++) {
    slots += 1 - arrived[t];
    roundSlots += 1 - arrived[t] ** link.transmitting;
  }
  return { needed, success: radio.success, probability: arrived[last], slots, roundSlots, fits: needed <= last };
}

// The bits of a transfer with other numbers of seed samples and bits per weight.
function sizeOf(transfer, samples, weightBits) {
  if (transfer.weights) return weightBits * transfer.weights + (weightBits < 32 ? transfer.ends : 0);
  return Math.round(transfer.fixed + (transfer.per_seed ?? 0) * samples);
}
