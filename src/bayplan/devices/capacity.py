"""How much of a device's capacity a request consumes (KEP-5075, consumable capacity).

A request that names no amount takes the policy's default, or all there is. One that names an amount
is rounded up to what the policy allows. Amounts that a device cannot give are no error: the device
is passed over. Amounts that cannot be computed are: they end the attempt. Steps are counted in
whole units: the gate DRAFractionalCapacityRange is off in kube-scheduler v1.37. Answers to
``consumable_capacity.go`` of kube-scheduler's allocator.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api.quantity import Amount
from bayplan.api.resource import CapacityRange, CapacityRequestPolicy, DeviceCapacity
from bayplan.devices.quantity import ExactQuantity, of_whole, quantity

Consumption = Mapping[str, ExactQuantity]
_MAX_INT64 = 2**63 - 1
_NOTHING: Mapping[str, int] = {}
_NOT_REPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"


class CapacityError(ValueError):
    """An amount that cannot be computed; the text is kube-scheduler's."""


def consumption(
    capacity: Mapping[str, DeviceCapacity], requests: Mapping[str, Amount]
) -> Consumption | None:
    """What a request takes of a device, by capacity name; None where the device is no candidate.

    Raises:
        CapacityError: an amount cannot be computed, or is negative.
    """
    if not requests.keys() <= capacity.keys():
        return None
    amounts = {name: _consumed(name, capacity[name], requests) for name in sorted(capacity)}
    policies = ((amounts[name], capacity[name].request_policy) for name in amounts)
    if any(policy and _violates(amount, policy) for amount, policy in policies):
        return None
    return amounts


def suffices(
    capacity: Mapping[str, DeviceCapacity],
    need: Consumption,
    allocated: Mapping[str, int] = _NOTHING,
    chosen: Mapping[str, int] = _NOTHING,
) -> bool:
    """Whether there is enough for ``need`` besides what shares consume, in steps of 1e-9."""
    return all(
        amount.nano + allocated.get(name, 0) + chosen.get(name, 0)
        <= quantity(capacity[name].value).nano
        for name, amount in need.items()
    )


def _consumed(name: str, capacity: DeviceCapacity, requests: Mapping[str, Amount]) -> ExactQuantity:
    if name not in requests:
        amount = _default(capacity)
    else:
        try:
            amount = _rounded(quantity(requests[name]), capacity.request_policy)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
    if amount.nano < 0:
        raise CapacityError(f'capacity "{name}": capacity value is negative')
    return amount


def _default(capacity: DeviceCapacity) -> ExactQuantity:
    policy = capacity.request_policy
    if policy is not None and policy.default is not None:
        return quantity(policy.default)
    return quantity(capacity.value)


def _rounded(amount: ExactQuantity, policy: CapacityRequestPolicy | None) -> ExactQuantity:
    if policy is None:
        return amount
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_to_range(amount, policy.valid_range, quantity(policy.valid_range.min))
    valid = (quantity(value) for value in policy.valid_values)
    return next((value for value in valid if amount.nano <= value.nano), amount)


def _rounded_to_range(
    amount: ExactQuantity, valid: CapacityRange, least: ExactQuantity
) -> ExactQuantity:
    if amount.nano < least.nano:
        return least
    if valid.step is None:
        return amount
    step = quantity(valid.step)
    if amount.whole > _MAX_INT64:
        raise CapacityError(f"{_NOT_REPRESENTABLE}: request {amount} exceeds MaxInt64")
    rounded = least.whole - (least.whole - amount.whole) // step.whole * step.whole
    if rounded > _MAX_INT64:
        raise CapacityError(
            f"{_NOT_REPRESENTABLE}: rounding request {amount} up to the next step passes MaxInt64"
        )
    return of_whole(rounded, step.format)


def _violates(amount: ExactQuantity, policy: CapacityRequestPolicy) -> bool:
    if policy.default is not None and amount.identical(quantity(policy.default)):
        return False
    if policy.valid_range is not None:
        return _violates_range(amount, policy.valid_range)
    values = [quantity(value).nano for value in policy.valid_values]
    return bool(values) and amount.nano not in values


def _violates_range(amount: ExactQuantity, valid: CapacityRange) -> bool:
    if valid.max is not None and amount.nano > quantity(valid.max).nano:
        return True
    if valid.step is None or valid.min is None:
        return False
    return (amount.whole - quantity(valid.min).whole) % quantity(valid.step).whole != 0
