#include "vmm/msr.h"

/* #calls start: ioctl(KVM_SET_MSRS)
 * #calls snapshot: ioctl(KVM_GET_MSR_INDEX_LIST|KVM_GET_MSRS) */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "vmm/kvm.h"

struct one_msr {
	struct kvm_msrs head;
	struct kvm_msr_entry entry;
};

bool msr_is_saved(uint32_t msr)
{
	static const struct {
		uint32_t first, last;
	} skipped[] = {
		{0x40000000, 0x400001ff}, /* Hyper-V */
		{0xc1, 0xc8},
		{0x186, 0x18d},
		{0x309, 0x30c},
		{0x345, 0x345},
		{0x38d, 0x391},
		{0x3f1, 0x3f1},
		{0x4c1, 0x4c8},
		{0x600, 0x600}, /* Intel performance monitoring */
		{0xc0010000, 0xc0010007},
		{0xc0010200, 0xc001020b},
		{0xc0000300, 0xc0000303}, /* AMD performance monitoring */
		{0x480, 0x492},		  /* VMX */
		{0x560, 0x58f},		  /* processor trace */
		{0x8b, 0x8b},
		{0x9e, 0x9e},
		{0xcf, 0xcf}, /* microcode, feature words */
		{0x34, 0x34},
		{0xce, 0xce},
		{0xc0010117, 0xc0010117}, /* SVM */
		{0xc0010015, 0xc0010015},
	};

	for (size_t i = 0; i < ARRAY_SIZE(skipped); i++)
		if (msr >= skipped[i].first && msr <= skipped[i].last)
			return false;
	return true;
}

static int msr_indices(int kvm_fd, struct kvm_msr_list **ret)
{
	_cleanup_free_ struct kvm_msr_list *list =
		calloc(1, sizeof(*list) + MSRS_MAX * sizeof(list->indices[0]));
	int r;

	if (!list)
		return -ENOMEM;
	list->nmsrs = MSRS_MAX;
	r = kvm_ioctl(kvm_fd, KVM_GET_MSR_INDEX_LIST, list);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(list);
	return 0;
}

int msr_get(int vcpu_fd, uint32_t index, uint64_t *ret)
{
	struct one_msr one = {.head.nmsrs = 1, .entry.index = index};
	int r = kvm_ioctl(vcpu_fd, KVM_GET_MSRS, &one);

	if (r == 1)
		*ret = one.entry.data;
	return r == 1 ? 0 : r < 0 ? r : -ENXIO;
}

int msr_set(int vcpu_fd, uint32_t index, uint64_t value)
{
	struct one_msr one = {.head.nmsrs = 1, .entry = {.index = index, .data = value}};
	int r = kvm_ioctl(vcpu_fd, KVM_SET_MSRS, &one);

	return r == 1 ? 0 : r < 0 ? r : -ENXIO;
}

int msr_get_all(int kvm_fd, int vcpu_fd, struct msr_table *t)
{
	_cleanup_free_ struct kvm_msr_list *list = NULL;
	int r = msr_indices(kvm_fd, &list);

	if (r < 0)
		return r;
	t->head.nmsrs = 0;
	for (uint32_t i = 0; i < list->nmsrs; i++) {
		struct kvm_msr_entry *m = &t->entries[t->head.nmsrs];
		uint64_t data;

		/* Reads one at a time, as KVM lists some MSRs that this CPU model does not have. */
		if (!msr_is_saved(list->indices[i]) ||
			msr_get(vcpu_fd, list->indices[i], &data) < 0)
			continue;
		*m = (struct kvm_msr_entry){.index = list->indices[i], .data = data};
		t->head.nmsrs++;
	}
	return 0;
}

int msr_set_all(int vcpu_fd, struct msr_table *t, uint32_t *ret_refused)
{
	for (;;) {
		uint32_t n = t->head.nmsrs;
		int done = kvm_ioctl(vcpu_fd, KVM_SET_MSRS, t);

		if (done < 0)
			return done;
		if ((uint32_t)done >= n)
			return 0;
		if (t->entries[done].data) {
			*ret_refused = t->entries[done].index;
			return -EINVAL;
		}
		t->head.nmsrs = n - (uint32_t)done - 1;
		memmove(t->entries, &t->entries[done + 1], t->head.nmsrs * sizeof(t->entries[0]));
	}
}
